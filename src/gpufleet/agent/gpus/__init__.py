"""The monitor of this node's GPUs: inventory, health and readings.

``gpu_monitor`` publishes the GPUs and their readings; ``vendor_monitor`` asks one vendor's library,
``monitored_gpu`` holds what is known of one GPU, and ``health_record`` keeps its health over a restart.
``plans`` is the function that says how each GPU is shared. ``backends`` chooses the vendors' libraries or a
simulated machine, which ``simulation_control`` and ``simulated_users`` serve.
"""
