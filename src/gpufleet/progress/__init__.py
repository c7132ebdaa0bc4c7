"""How a long step tells a person what it does, how far it is, and when it will probably end.

``reporting`` writes it, ``durations`` knows how long a step took the last time on this machine, ``command``
runs a program as such a step, ``logged`` writes it into a daemon's log and reads it there, and ``kernels``
tells of the engine's kernels while they are compiled. ``collection_pause`` makes long steps shorter. All but
``kernels`` need nothing beside Python, because set-up tells its steps before anything is
installed.
"""
