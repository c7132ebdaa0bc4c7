"""The node agent in the simulation: its real code between a simulated kubelet and the simulated API server.

``run`` is one run from a seed, ``every_death`` one story with a death at each of its steps, ``claim_story``
the same of resource claims, and ``world`` the node of all. ``kubelet`` is the kubelet that forgets,
``claim_manager`` its part for claims, ``crashes`` the death of the agent, ``threadless_backend`` the vendor's
library, and ``judge`` the promises. ``cli.sim_node`` is the program.
"""
