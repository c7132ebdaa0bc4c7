"""Typed views of the objects that rules judge."""
