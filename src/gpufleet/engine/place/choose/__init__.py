"""The node and the devices for one pod.

``ranking`` finds the best node, ``device_choice`` its devices, ``placement`` does both and books them in one
compiled call. ``related_places`` does so for a pod that other pods or volumes tie down. ``policy_state``
holds the policy in use, ``trial`` tries placements that may be undone. Comes after ``score`` and
``relations``.
"""
