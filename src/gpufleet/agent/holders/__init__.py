"""The holders of devices: which container of which pod has which units now.

``holder_monitor`` asks the kubelet and publishes the holders. ``holder_memory`` adds containers that the
kubelet forgot, from the agent's own file (``holder_record``), the node's report in the API
(``reported_holders``), answers to Allocate (``open_answers``) and grants. ``vanished_pods`` says when a pod
that left the API holds nothing any more. ``held_gpus`` and ``held_parts`` say what the holders have of each
GPU.
"""
