"""Ending pods that run: the one place from which any part of gpufleet evicts.

A shell says which pods end and why (``plan``). ``evictions`` asks the API server, keeps to disruption
budgets, asks again what was not answered, and tells the shell what came of each pod.
"""
