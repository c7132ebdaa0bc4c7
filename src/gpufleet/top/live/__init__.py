"""The live view: ``terminal`` puts a terminal into the state that it needs and back, ``session`` reads keys
and draws.

All else is in ``gpufleet.top.readings``, ``gpufleet.top.rows`` and ``gpufleet.top.screen``.
"""
