"""The Kubernetes Events that the agent writes, on its Node and on pods.

``node_events`` and ``pod_events`` write them. ``xid_events`` reports driver errors to the pods on a GPU,
``lost_holder_events`` devices that the kubelet forgot, and ``credential_events`` credentials that end soon.
"""
