"""Questions that take the engine or the doctor seconds, answered by a process of their own.

``questions`` has what goes between the two processes, ``worker`` is the one that answers, over objects that
it follows by watches (``overview.readings.followed_picture``), and ``process`` asks it.
"""
