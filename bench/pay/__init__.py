"""What the ledger of money costs itself, on a made-up fleet of a year with 12.4 million rows."""
