"""The live scheduler: a shell that feeds the cluster's changes to the engine and carries out its word.

Start reading at ``service`` (what runs, in which order), then ``rounds`` (one decision round): ``cluster``
turns what its mirrors saw into the engine's events, ``dispatch`` hands the engine's instructions to the
parts that carry them out: ``binder``, ``eviction_planner`` with ``evictions``, ``reporting`` and
``condition_writer``.
"""
