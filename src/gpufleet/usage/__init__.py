"""What pods used of their GPUs: ``samples`` of pods over time, and the ``measured_cards`` there were.

Samples come from tables (``cli.use_input``) or from a Prometheus server (``prometheus``). ``agent_series``
are the series in which agents tell of use now, and ``metrics_page`` reads them.
"""
