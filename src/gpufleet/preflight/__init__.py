"""Preflight: what stands in the way of another driver on a node, found before anything is touched.

``facts`` is what is known of a host and of what else works on it, ``finding`` what comes out. Each rule of
``modules``, ``kernel``, ``runtime``, ``other_operators`` and ``node_state`` is a pure function; ``judging``
asks them all. What is not known is a finding too: a canary is no place to find out.
"""
