"""All state in one place, and the steps of a workload between waiting, placed, nominated and gone.

``engine_state`` puts the parts of all earlier stages together and keeps them consistent when a pod changes
from one condition to another. ``departures`` notes which pods end and which workloads wait for that,
``nominations`` keeps places for these, ``budgets`` counts disruption budgets, ``eviction_immunity``
remembers at whose cost work came to its place. Comes after ``place`` and before ``preempt``.
"""
