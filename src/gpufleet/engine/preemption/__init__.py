"""Preemption: who may be evicted for whose sake, and the cheapest set of them that is proven to help.

``search`` is the way in: it asks ``candidates`` who may be evicted at all, and looks for the cheapest
set among them, node by node (``by_node``) for a pod that lacks nothing but room, otherwise over the
fleet (``over_fleet``). ``proof`` tries a set on the journal; nothing is proposed that was not tried.
"""
