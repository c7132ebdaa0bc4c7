"""How the GPUs of this node are shared: the declared configuration, MPS, and the monitor of memory.

``sharing`` puts the parts together; ``sharing_source`` makes the plan of each GPU from the configuration.
"""
