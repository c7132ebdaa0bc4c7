"""GPUs as their vendors' libraries show them: facts, readings, events, health.

``backend`` is the one interface; each vendor, and the simulation, stands behind it. ``xid`` and
``health`` say what an event means for the GPU. Nothing here knows Kubernetes; ``gpufleet.agent`` is
the next step.
"""
