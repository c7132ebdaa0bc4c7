"""What can come of a Binding. ``binder`` finds it out, and ``metrics`` counts each from 0 on."""

import enum


class Outcome(enum.Enum):
    """What came of a bind."""

    BOUND = "bound"
    REFUSED = "refused"
    FENCED = "fenced"
    GONE = "gone"
    TAKEN = "taken"
    GAVE_UP = "gave-up"
    NO_VOLUME = "no-volume"
    NO_DEVICES = "no-devices"


LEAVES_CLAIMS = frozenset({Outcome.REFUSED, Outcome.GONE, Outcome.GAVE_UP})
"""The pod was not bound and the claims that were written for it are given back.

A pod that another scheduler bound runs with them, and after a fence a new leader may be binding it.
"""
