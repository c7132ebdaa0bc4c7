"""Scenario files: a fleet, its queues, some work and a clock, and what the engine must decide.

Begin at ``text``, which is the format; ``fleet`` and ``work`` make values of it, ``scenario_engine`` plays
them through the real engine, ``expectation`` compares, and ``command`` does all of it for a list of files.
"""
