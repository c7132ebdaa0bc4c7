"""Cluster Autoscaler's question and the answer to it, on the wire and as values."""
