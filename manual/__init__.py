"""What the documentation's build adds to the site that zensical writes."""
