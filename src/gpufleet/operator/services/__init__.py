"""Services with GPUs that grow and shrink: why replicas have no place, and which one ends first.

``service_pods`` reads pods, ``deletion_costs`` finds the replica whose end frees the most useful room,
``unplaced_replicas`` says of what the others wait, and ``services_controller`` does both in rounds.
"""
