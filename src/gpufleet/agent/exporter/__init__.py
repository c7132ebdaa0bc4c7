"""What the GPUs of this node and the pods on them did, for Prometheus.

Everything is made from what other parts of the agent know already (``state.node_state``), so a scrape never
waits for a driver. NVIDIA's GPUs are told under DCGM's names (``counters``, ``dcgm_series``), AMD's under
those of AMD's exporter (``amd_series``), and all of them, with the pods that hold them, under our own
(``gpu_series``, ``pod_series``). The use of each pod is worked out in ``holders.held_parts``, ``usage`` and
``energy``. ``exporter`` puts it together whenever something changed, and ``agent.exporter_server`` sends it.
"""
