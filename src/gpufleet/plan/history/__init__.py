"""Which fleet keeps a service level for the work of a history: `gpufleet plan --history`.

``demand`` is the work, as a trace tells it or as ``forecast`` makes it for a month that is to come.
``fleet_trials`` replays it on a fleet with the engine of the live scheduler, and ``fleet_search`` asks for
such replays until it has a cheap fleet that holds the level. ``command`` puts them together, ``answer`` is
the result.
"""
