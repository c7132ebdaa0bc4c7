"""The live shells in one process without a cluster: an API server in memory, virtual time, seeded faults.

``virtual_loop`` gives asyncio a time that jumps, ``process`` what can be killed or paused on it.
``api_server`` answers requests as a kube-apiserver does (``tests/simulation`` holds both to the same
cases), ``network`` puts it behind the transport seam. ``actors`` are kubelets, controllers and users.
``faults`` break the world on purpose, ``invariants`` judge from outside, by the history of objects,
what came of it. ``scenario`` puts one run together from a seed. ``agreement`` compares, all along, what
``explain`` says with what the live scheduler decides next.
"""
