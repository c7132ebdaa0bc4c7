"""Which nodes to buy for the work that waits: `gpufleet plan`.

``instance_types`` are what can be bought, ``waiting_work`` is what a purchase may help, ``purchase_search``
finds a cheap set of nodes by sizes alone, and ``planning`` has the engine of the live scheduler judge that
set, mend it and take from it what is not needed. ``command`` puts them together, ``answer`` is the result.
"""
