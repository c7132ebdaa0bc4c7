"""How the GPUs of this node are shared: the declared configuration, MPS, and the watch over memory.

Begin at ``sharing``, which puts the parts together; ``plans`` is what the monitor follows.
"""
