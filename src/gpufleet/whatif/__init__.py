"""What if: the cluster as it is and as it would be, each decided by an engine of its own, and the difference.

``request`` reads what is asked, ``nodes``, ``quotas`` and ``submission`` change a copy of the objects,
``course`` lets the engine decide until nothing more follows, ``difference`` compares, ``command`` does all of
it for a cluster or a snapshot. Nothing is ever written to a cluster.
"""
