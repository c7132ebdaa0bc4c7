"""Moving in: the queues of Kueue, KAI, Volcano and scheduler-plugins as FleetQueues.

``sources`` reads the objects from files, ``gathering`` from a cluster. One module a system (``kueue``,
``kai``, ``volcano``, ``elastic_quota``) turns them into ``queues``, as pure functions, and notes in
``field_notes`` what became of each field: honoured, approximated, or without an equivalent, and why.
``command`` puts the steps together for ``gpufleet import``.
"""
