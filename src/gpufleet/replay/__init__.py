"""The engine on a recorded workload: readers of traces, runs, sweeps, the report.

Start at ``plan`` (what is asked), then ``run`` (one run) and ``sweep`` (many); ``trace`` reads files,
``results`` is what comes out and ``report`` draws it.
"""
