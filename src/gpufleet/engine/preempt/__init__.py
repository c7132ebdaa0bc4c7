"""Which running pods end: for the sake of work that does not fit, or because they may run no longer.

``victims`` is what the cycle asks and what it is answered. ``victim_search`` answers, unless
``quick_reject`` tells that there can be no victim or ``search_cache`` knows the plan of an equal pod. It
asks ``candidates`` which pods may be evicted at all (``reclaim`` for those of other queues), and looks for
the cheapest set among them, node by node (``by_node``) for a pod that lacks nothing but room, otherwise
over the fleet (``over_fleet``). ``proof`` tries a set on the journal; nothing is proposed that was not
tried. ``search_retries`` says when to ask again. ``overtime`` ends work that has run for as long as it may,
``stopping`` that of a closed queue.

Comes after ``lifecycle`` and before ``reserve``, which is for work that no eviction helps.
"""
