"""Moving running pods so that what is free lies together.

A move is the end of a pod whose controller makes another one, which then runs elsewhere. Every move is tried
on the journal first: the pod is taken off its node and placed again, before anything is said.
``consolidation`` looks for moves that make larger gaps, ``for_workload`` for those that let one waiting
workload start, ``automatic`` makes them by the clock. Comes after ``preempt``, beside ``reserve``.
"""
