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
