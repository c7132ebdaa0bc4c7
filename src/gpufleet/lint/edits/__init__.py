"""Mends of a text that leave alone what they do not name."""
