"""A simulation of a vendor's library and driver: GPUs that exist only in a file.

``description`` is the machine as YAML, ``machine`` its state over time with faults that can be raised
while it runs, ``backend`` what a vendor's library would answer. All above it is the real agent.
"""
