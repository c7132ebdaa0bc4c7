"""The device plugin: offers units to the kubelet, and answers its calls for containers.

``registration`` registers each resource with the kubelet, and ``plugin_server`` serves the device plugin API
of one resource. ``whole_device_registrar`` offers whole GPUs, replicas and MIG instances, and writes the CDI
files of what there is (``static_devices``); ``share_slot_registrar`` offers slots for shares. An
``Allocator`` (``unit_allocator``) answers for one resource: ``whole_device_allocator`` by
``pending_requests`` (the containers that may be asking), ``whole_device_rules`` (the units that each may
have), ``choice`` (the best free units) and ``delivery`` (what the container gets); ``share_allocator`` by
``share_owner`` and ``share_rules``.
"""
