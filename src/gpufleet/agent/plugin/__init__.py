"""The device plugin: what is offered to the kubelet, and what containers get.

``offer`` has the values and the seam to whoever decides; ``plugin_socket`` serves one resource;
``registration`` makes the kubelet know all of them, again whenever it was restarted.
"""
