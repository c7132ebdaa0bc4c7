"""Queues and disruption budgets: from FleetQueue and PodDisruptionBudget to what the engine is told.

``queue_tracker`` reads the queues and the namespaces that they admit, ``reservation_records`` and
``nomination_records`` what a status remembers of places that are kept, ``learned_records`` what it remembers
of run times, ``budget_tracker`` the budgets. ``queue_figures`` puts together what the engine says of each
queue, and ``queue_conditions`` has the reasons that a FleetQueue shows.
"""
