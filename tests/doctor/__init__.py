"""Tests of the doctor, which share one cluster."""
