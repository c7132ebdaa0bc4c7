"""The live view: ``terminal`` puts a terminal into the state that it needs and back, ``session`` reads keys
and draws.

All else is in ``gpufleet.overview.readings``, ``gpufleet.overview.rows`` and ``gpufleet.top.screen``.
"""
