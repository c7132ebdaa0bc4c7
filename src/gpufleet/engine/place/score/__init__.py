"""Whether a node has room for a shape, and how good a place it is.

``fit`` answers the first, ``locality`` for devices that must be near each other. Of the scoring functions
each module holds one idea of what a good place is (``worth``, ``fragmentation``, ``published``); ``total``
adds them up with the weights of the policy (``policy_tables``). All scores are integers, higher is better.
"""
