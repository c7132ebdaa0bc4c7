"""Which cards would be cut into MIG instances for the work of a cluster that waits.

``waiting`` reads what pods wait for, ``cards`` the cards and what is in use of them, ``command`` asks the
planner of ``mig``, and ``answer`` is what it says. Nothing is changed here.
"""
