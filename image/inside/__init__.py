"""What exists in the image alone: it is copied there, beside our wheel."""
