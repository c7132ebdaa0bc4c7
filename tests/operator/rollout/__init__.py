"""A rollout of drivers, as values in virtual time."""
