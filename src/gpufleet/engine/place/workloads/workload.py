"""What every workload can be asked, whether it is a single pod or a gang.

A workload is the unit of the waiting lines, of trials, of searches for victims, of reservations and of what
is told of work that waits. So these ask a workload, and none of them asks whether there is a gang.
``single_pod`` and ``gang_workload`` answer.
"""

from collections.abc import Iterable
from typing import Protocol

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.queueing.gate import Gate
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod import Pod

WorkloadName = PodUid | GangName
"""By what a workload is known: the name of its gang, or the uid of its pod."""


class Workload(Protocol):
    """Pods that start together."""

    @property
    def name(self) -> WorkloadName:
        """By what it is known."""
        ...

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        ...

    @property
    def ranked(self) -> Pod | Gang:
        """What has its queue, its priority and its age."""
        ...

    @property
    def row(self) -> int:
        """The row of the first of its pods that wait; NOT_SET if none does."""
        ...

    @property
    def rows(self) -> list[int]:
        """The rows of its pods that wait, in the order in which they came."""
        ...

    @property
    def least(self) -> int:
        """How many pods start with the next one; 1 for a gang that has its minimum and grows."""
        ...

    @property
    def is_ready(self) -> bool:
        """True if enough of its pods have come to try, and none of them has a nomination."""
        ...

    @property
    def must_start(self) -> bool:
        """False for a gang that has its minimum, or of which no pod waits: no pod ends and no place is kept
        for its sake.
        """
        ...

    @property
    def joins_others(self) -> bool:
        """True for members that a gang of which some run lacks."""
        ...

    @property
    def is_single(self) -> bool:
        """True for one pod that waits for no other: only then room on one node is all that it needs."""
        ...

    def asked(self, gate: Gate) -> Int64Array:
        """By resource column, the least that it is charged if it starts with as few pods as it may."""
        ...

    def asked_and_protected(self, gate: Gate) -> tuple[Int64Array, Int64Array]:
        """What ``asked`` says, and the least of it that counts as protected work."""
        ...

    def let_wait(self, rows: Iterable[int], trial: Trial) -> None:
        """Pods of it that have nominations count as waiting, before the others, while a trial lasts."""
        ...

    def place(self, trial: Trial, nodes: Int64Array = NO_NODES, *, surplus: bool = False) -> list[int]:
        """Place it inside a trial that goes on; the rows placed, none if it does not fit.

        A single pod goes on these nodes only, if any are given. With ``surplus`` a gang places more members
        than it must, as many as fit.
        """
        ...
