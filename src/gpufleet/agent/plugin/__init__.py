"""The device plugin: what is offered to the kubelet, and what containers get.

``offer`` has the values and the seam to whoever decides; ``whole`` says whose the units are.
"""
