"""What pods used of their GPUs: ``samples`` of pods over time, and the ``cards`` there were.

Samples come from tables (``cli.use_input``) or from a Prometheus server (``prometheus``).
"""
