"""What a check is: a pure function of what is known of a cluster, which yields what it found.

``checks`` holds one module for each; ``diagnosis`` asks them all.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpufleet.doctor.facts import Facts


class Point(enum.Enum):
    """The points of the checklist, and what lies across them.

    Each has its number, what is so where it is passed, and why it is not judged where nothing was looked at.
    """

    NODES = (1, "GPU nodes are there", "there are no nodes")
    STACK = (2, "Driver, toolkit, plugin and exporter work", "there are no GPU nodes")
    PLACING = (3, "Nodes are labelled and tainted, and work finds them", "there is no GPU work")
    SHARING = (4, "Sharing is as configured", "no node shares its GPUs, and no configuration says so")
    QUOTAS = (5, "Quotas, queues and priorities let work in", "no GPU work is under any of them")
    WATCHING = (6, "Metrics and alerts watch the GPUs", "nothing in the cluster collects metrics")
    SCALING = (7, "Pods and nodes scale", "no GPU work and no GPU node is scaled")
    GANGS = (8, "Distributed work starts as a whole", "there is no distributed GPU work")
    SECURITY = (9, "Tenants are kept apart", "there is no GPU work")
    UPGRADES = (10, "Nodes can be drained and upgraded", "there is no GPU work")

    @property
    def number(self) -> int:
        """The check's place on the list."""
        return self.value[0]

    @property
    def title(self) -> str:
        """What is so where it is passed."""
        return self.value[1]

    @property
    def nothing(self) -> str:
        """Why it is not judged where no check found anything that it is about."""
        return self.value[2]


class Layer(enum.IntEnum):
    """How near to the root of things a check looks: what is wrong below shows above, not the other way."""

    CONTROL_PLANE = 0
    NODE = 1
    DRIVER = 2
    STACK = 3
    OFFER = 4
    ADMISSION = 5
    QUEUE = 6
    PLACEMENT = 7
    START = 8
    RUNNING = 9
    SCALING = 10
    PRACTICE = 11


class Grade(enum.Enum):
    """What a failure costs."""

    BROKEN = "broken"
    """Something does not run that ought to, or GPUs lie idle."""

    RISK = "risk"
    """Nothing has failed yet; it will with the next drain, tenant or restart."""


@dataclass(frozen=True)
class Remedy:
    """A way out: what it does, and the command or the manifest that does it."""

    does: str
    command: str = ""
    manifest: str = ""


@dataclass(frozen=True)
class Failure:
    """Something is wrong.

    ``says`` is a sentence, ``subjects`` the titles of the objects that are wrong, ``evidence`` what was seen
    there. ``affects`` are the objects that suffer from it: what is wrong with these alone is told as its
    consequence.
    """

    says: str
    subjects: tuple[str, ...]
    evidence: tuple[str, ...]
    mends: tuple[Remedy, ...]
    affects: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Good:
    """Something was looked at and is right."""

    says: str


@dataclass(frozen=True)
class Unjudged:
    """Something could not be judged: why, and what it would need."""

    says: str


Verdicts = Iterable[Failure | Good | Unjudged]


@dataclass(frozen=True)
class Check:
    """One check. ``reads`` names the kinds without which it cannot judge; ``why`` says why it matters.

    What is ``written`` wrong, such as the name of a queue, stays wrong whatever is mended elsewhere: it
    follows from nothing.
    """

    id: str
    point: Point
    layer: Layer
    title: str
    why: str
    judge: Callable[[Facts], Verdicts]
    reads: tuple[str, ...] = ()
    grade: Grade = Grade.BROKEN
    written: bool = False


def listed(titles: Iterable[str], most: int = 3) -> str:
    """Names as people say them: a few, and how many more."""
    names = list(titles)
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
