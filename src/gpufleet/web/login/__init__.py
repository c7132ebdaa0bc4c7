"""Who asks, and what they may see: ``local_login`` on one's own machine, ``cluster_login`` in a cluster.

``sessions`` remembers who has logged in, ``hosts`` refuses pages of other names. ``person`` is what both
find.
"""
