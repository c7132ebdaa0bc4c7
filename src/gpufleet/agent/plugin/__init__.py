"""The device plugin: whole GPUs, replicas and MIG instances under the names that the kubelet counts.

``keeper`` follows the node's GPUs, writes the CDI files of what there is (``static_devices``) and offers the
units (``units``) to the kubelet through ``registration`` and a ``plugin_socket`` for each resource. A
``whole_steward`` answers for a resource: who may be asking is in ``claims``, whose a unit is in ``whole``,
which free ones suit in ``choice``, and what the container then gets in ``delivery``.
"""
