"""The node agent in the simulation: its real code between a simulated kubelet and the simulated API server.

``run`` is one run from a seed, ``kubelet`` the kubelet that forgets, ``crashes`` the death of the agent at
each of its writes, ``threadless_backend`` the vendor's library, and ``judge`` the promises.
``cli.sim_node`` is the program.
"""
