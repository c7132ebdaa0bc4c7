"""Benchmarks: each prints figures beside their targets and writes them to build/bench/NAME.json."""
