"""What to do: events of the fleet go in, instructions come out.

The engine has no I/O, no clock and no randomness of its own. Start reading at ``scheduler``
(the one entry point), then ``tables`` (the state) and ``journal`` (how a trial is undone).
"""
