"""Benchmarks: ``python -m bench.NAME`` or ``make bench-NAME`` prints figures, each beside a reference.

The reference is measured in the same run, so that a figure means something on any machine. Tests
never assert times; ``docs/performance.md`` keeps what was measured.
"""
