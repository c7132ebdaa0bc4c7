"""``gpufleet web``: the state of a fleet as a page in the browser, with what the person may see.

``documents`` has everything that goes over the wire.
"""
