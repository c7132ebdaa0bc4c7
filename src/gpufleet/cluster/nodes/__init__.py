"""Nodes and their devices: from Node, NodeDevices and CSINode to the node that the engine knows.

``node_tracker`` puts a node together. ``node_gpus`` says what a node has to give when its report is missing
or lacks devices, and ``disputed_devices`` which of several nodes has a device that all of them report.
``cuts_to_come`` takes away what is about to be cut, ``cuts_for_pods`` keeps what was cut for pods.
"""
