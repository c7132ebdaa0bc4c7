"""Tests of admission, which share one API server."""
