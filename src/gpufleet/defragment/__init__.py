"""``gpufleet defragment``: which running pods to move so that larger ones fit, and moving them.

``command`` finds the moves on a cluster or a snapshot with the engine, ``plan`` is what is answered.
``applying`` makes them: ``moving`` one after the other, with the node that is left closed (``cordon``).
"""
