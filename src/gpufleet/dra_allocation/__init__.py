"""Devices for resource claims: which devices of which pools serve a claim on a node.

``slices``, ``classes`` and ``claims`` are the objects of the API as values, ``pools`` what a node can reach,
``held`` what is taken, ``search`` the choice, and ``allocator`` what other packages use. Order, limits and
refusals are those of Kubernetes' allocator: two schedulers on one cluster must read one claim alike.
``preference`` has another order, in which more is left for later claims. Of a refusal ``diagnosis`` says what
each device has against a claim, and ``ways_out`` which change would help.
"""
