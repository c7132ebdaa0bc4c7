"""Idle work is parked: it gives its GPUs back, keeps its volumes, and comes back by one command.

``parking_keys`` names what stands on objects. ``rule`` reads when work counts as idle, ``activity`` judges
from measurements whether it is, and ``parking_step`` decides what is written next. ``workloads`` reads the
kinds that can be parked, ``patches`` writes them. ``measuring`` asks Prometheus, ``observation`` reads the
cluster, ``parking_controller`` does all of it in rounds, and ``questions`` for one workload that a person
names.
"""
