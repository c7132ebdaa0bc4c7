"""Faults of the world around a scheduler, each with the name by which a command line asks for it.

``interference`` is what a fault can do: stand in the way of requests and watches, and lay hands on the
server, the clocks and the processes. ``catalogue`` lists them all.
"""
