"""Nodes are emptied with little loss: which work waits, which moves where, in which order of nodes.

``planner`` is a pure function from a ``DrainQuestion`` (``question``) and ``Places`` to a ``DrainPlan``
(``plan``). ``facts`` reads a question from a cluster or a snapshot, where the engine finds the places.
"""
