"""Logins, and what a person may see: ``local_login`` on one's own machine, ``cluster_login`` in a cluster.

``trusted_proxy`` takes the user's name from a proxy that logs people in. ``sessions`` remembers who has
logged in, ``hosts`` refuses pages of other names. ``person`` is what all of them find.
"""
