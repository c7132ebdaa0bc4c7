"""How a requirement can come out on a node, when some of the node's facts may not be known.

Both runtimes' rules give a set of these: with one in it the node decides, with several what is not known
does. ``legacy_rules`` and ``cdi_rules`` make the sets; ``requirement`` reads them.
"""

import enum


class ImageOutcome(enum.Enum):
    """What the runtime does."""

    STARTS = "starts"
    REFUSES = "refuses"
    INVALID = "invalid"


Outcomes = frozenset[ImageOutcome]

STARTS, REFUSES, INVALID = ImageOutcome.STARTS, ImageOutcome.REFUSES, ImageOutcome.INVALID
EITHER: Outcomes = frozenset((STARTS, REFUSES))


class Facts(dict[str, str]):
    """What a runtime knows by name: ``cuda``, ``driver``, ``arch``, ``brand``. A name that is missing is
    not known to us, though the node's runtime will know it.
    """
