"""The state of a fleet as rows: what every view of it reads and shows.

``readings`` asks the cluster, the engine and whatever measures use; ``rows`` makes lines of what is known and
is pure. What is not known is None, never 0. ``gpufleet.top`` draws the lines.
"""
