"""``gpufleet defragment``: which running pods to move so that larger ones fit.

``command`` finds the moves on a cluster or a snapshot with the engine, ``plan`` is what is answered.
"""
