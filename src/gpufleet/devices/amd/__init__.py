"""AMD's GPUs: the kernel's files always, AMD's library where it is there.

``backend`` is the interface; ``kfd`` reads the compute driver's view (partitions, XGMI links),
``gpu_metrics`` the firmware's table, ``products`` knows names, ``smi`` asks amdsmi for what files do not
tell: which processes use a GPU, and that a GPU was reset.
"""
