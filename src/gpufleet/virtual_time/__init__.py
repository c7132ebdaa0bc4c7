"""Virtual time: an engine whose instructions come true at once, from one due moment to the next.

Replay, scenarios and what-if each play an engine ahead of the clock. ``player`` is the loop that they share;
each says by ``Consequences`` what comes of its pods. Nothing here reads a clock.
"""
