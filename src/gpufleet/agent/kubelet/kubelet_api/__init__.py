"""The messages of the kubelet's sockets, as far as the agent uses them.

The ``.proto`` files name the fields that are read or written, with the numbers that Kubernetes has
given them; what they leave out is skipped on the wire. The Python beside them is generated from them
(``make protos``), and a test generates it anew and compares.
"""
