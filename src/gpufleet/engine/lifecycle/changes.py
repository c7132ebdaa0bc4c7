"""What happens to the state, as one typed stream, and what has to be looked at again because of it.

The code that changes something says what it was (``note``), and nothing of what follows. That stands in the
two tables here: by which changes a parked line may fit, and by which a search for victims, a reservation
or a search for moves that came to nothing may come to more. ``cycle`` wakes lines by the first,
``search_retries`` and all that remembers what it found by the second.
"""

from collections.abc import Iterable
from enum import IntEnum, auto


class Change(IntEnum):
    """Something that may be to the good of work that waits."""

    NODE = 0
    """A node says something else of itself, or something else is said of it."""
    NODE_OF_DOMAINS_REMOVED = auto()
    """A node went while pods have rules about each other: domains may be gone with it."""
    POD_LEFT = auto()
    """A pod has a place no more, or not where it was."""
    POD_DESCRIBED_ANEW = auto()
    """A pod that has a place is described in another way."""
    POD_PLACED = auto()
    """A pod has a place."""
    POD_LEAVES = auto()
    """A pod that has a place was told to end by others, as the shell says."""
    EVICTED = auto()
    """A step told pods to end."""
    EVICTIONS_ALLOWED = auto()
    """Evictions that were refused may be asked for again."""
    PLACE_GIVEN_UP = auto()
    """A place is kept for a pod no more."""
    ROOM_OFFERED = auto()
    """What changed was offered to the lines that lack room."""
    QUEUE_DESCRIBED = auto()
    """A queue is described, or described anew."""
    QUEUE_REMOVED = auto()
    """A queue is gone."""
    RUN_TIME_LIMITS = auto()
    """Queues let work run for another time than before."""
    BUDGET = auto()
    """A disruption budget is another, or gone."""
    IMMUNITY_RECALLED = auto()
    """It is known again which pods may not be evicted for which queues."""
    TOPOLOGY = auto()
    """The levels of the topology are others."""
    NAMESPACE = auto()
    """The labels of a namespace are others."""
    CLAIMED_DEVICES = auto()
    """Devices for resource claims, their classes or the claims are others."""


FREES_ROOM = (
    Change.NODE,
    Change.NODE_OF_DOMAINS_REMOVED,
    Change.POD_LEFT,
    Change.POD_DESCRIBED_ANEW,
    Change.PLACE_GIVEN_UP,
    Change.QUEUE_REMOVED,
    Change.RUN_TIME_LIMITS,
    Change.TOPOLOGY,
    Change.NAMESPACE,
    Change.CLAIMED_DEVICES,
)
"""By these work may fit that did not."""

CHANGES_VICTIMS = (
    Change.POD_PLACED,
    Change.POD_LEAVES,
    Change.EVICTED,
    Change.EVICTIONS_ALLOWED,
    Change.ROOM_OFFERED,
    Change.QUEUE_DESCRIBED,
    Change.BUDGET,
    Change.IMMUNITY_RECALLED,
)
"""By these a search may find victims, or a place in the future, that it did not.

What frees room is among them once it was offered: work that fits needs no search.
"""


class Interest:
    """Counts the changes of some kinds; ``seen`` is the count when they were last taken."""

    __slots__ = ("count", "seen")

    def __init__(self) -> None:
        self.count = 0
        self.seen = 0

    @property
    def is_pending(self) -> bool:
        """True if something happened since this was last taken."""
        return self.count != self.seen

    def take(self) -> bool:
        """True if something happened since this was last asked."""
        is_pending, self.seen = self.count != self.seen, self.count
        return is_pending


class Changes:
    """The stream. Each interest counts what belongs to it; the order of changes does not matter to any."""

    def __init__(self) -> None:
        self._interests: list[list[Interest]] = [[] for _ in Change]
        self.room = self.interest_in(FREES_ROOM)
        self.victims = self.interest_in(CHANGES_VICTIMS)

    def interest_in(self, kinds: Iterable[Change]) -> Interest:
        """What counts all changes of these kinds from now on."""
        one = Interest()
        for kind in kinds:
            self._interests[kind].append(one)
        return one

    def note(self, change: Change) -> None:
        """Something happened."""
        for one in self._interests[change]:
            one.count += 1
