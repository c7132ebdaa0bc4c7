"""A line of work that waits: interchangeable workloads, and lines of a queue that take their turn together.

``waiting`` keeps them, ``turns`` compares their heads.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from gpufleet.model.identifiers import GangName, QueueName
from gpufleet.model.pod import Pod

SeenLabels = tuple[()] | tuple[str, tuple[tuple[str, str], ...]]
"""What other pods' selectors see of a pod, or nothing where that does not matter."""

CLASS_BITS = 5
"""The leading bits of a run time that count."""

SWEEP_FIRST = 64
"""A heap of fewer entries is not worth sweeping."""


class Head(NamedTuple):
    """The turn of a workload inside its queue; smaller goes first.

    The API tells to the second when something was made. What was made in the same second goes by ``name``,
    which every reader of the API sees; ``sequence``, the order of arrival here, tells only equal names apart.
    """

    minus_priority: int
    created_at_us: int
    name: str
    sequence: int


class LineKey(NamedTuple):
    """What the workloads of a line have in common.

    ``apart`` is set for pods that others' anti-affinity keeps out: the namespace and labels by which
    it does. ``late`` is set for pods that came when their queue was draining already, ``refused`` to the
    namespace of pods whose queue did not admit it. ``preempts`` is False
    for pods that may evict none, ``protected`` set for those that may not be evicted; the members of a gang
    each say that themselves.
    ``run_time_class`` tells pods apart that say how long they run, or that they may be interrupted: such ones
    may run where others may not. So does ``template``, for pods whose run time is learned.
    """

    queue: QueueName
    priority: int
    shape_row: int
    gang: GangName | None = None
    apart: SeenLabels = ()
    late: bool = False
    refused: str = ""
    preempts: bool = True
    protected: bool = False
    run_time_class: int = 0
    template: str = ""


Entry = tuple[int, str, int, "Line", int]
"""A workload in a line: when it was made, its name, its sequence, the line, and its pod row.

No two entries have the same sequence, so the line decides no comparison.
"""


@dataclass(slots=True, eq=False)
class Line:
    """Interchangeable workloads; ``waiting`` is a heap.

    ``unreported`` are pods that have not heard yet why they wait, each row by its sequence. ``offered`` is
    the turn under which the line stands in its queue, at the latest its head's. ``holds_back`` tells of a
    parked line that nothing behind it in a strict queue may overtake it. ``beside`` are the lines with which
    a parked line takes its turn all the same (``WaitingLines.call``). ``refused_first`` is the entry that was
    its first when quota kept it out the last time. ``closed`` is set once its last workload has left: another
    line stands for its key then, or none.
    """

    key: LineKey
    waiting: list[Entry] = field(default_factory=list)
    parked: bool = False
    closed: bool = False
    holds_back: bool = False
    unreported: dict[int, int] = field(default_factory=dict)
    offered: Head | None = None
    sweep_at: int = SWEEP_FIRST
    refused_first: Entry | None = None
    beside: "CalledLines | None" = None

    @property
    def called(self) -> bool:
        """True for a parked line that takes its turn all the same."""
        return self.beside is not None and self.beside.is_called

    def head(self) -> Head:
        """The turn of the first workload."""
        created_at_us, name, sequence, _, _ = self.waiting[0]
        return Head(-self.key.priority, created_at_us, name, sequence)

    def take_unreported(self, sequence: int) -> bool:
        """True if the workload of this sequence had not heard yet why it waits; it counts as told then."""
        return self.unreported.pop(sequence, None) is not None


@dataclass(slots=True, eq=False)
class CalledLines:
    """Lines of one queue that are called together; a line that wakes leaves (``Line.beside``).

    ``numbers`` are those of all lines of the queue that could be called, in ``kept_out``. ``first`` is the
    entry whose turn it is among them, None where that has to be found anew. ``is_settled`` is set while each
    line is as it was when all of them were refused together the last time, with the same first workload. Of
    these ``kinds`` are the queue and the priorities, and ``oldest_us`` is when the oldest was made that did
    not come late to a draining queue, None where all of them did.
    """

    queue: QueueName
    numbers: list[int]
    lines: list[Line] = field(default_factory=list)
    is_called: bool = False
    first: Entry | None = None
    is_settled: bool = False
    kinds: tuple[tuple[QueueName, int], ...] = ()
    oldest_us: int | None = None

    def spoil(self) -> None:
        """The first workload of a line may be another, or a line has left."""
        self.first = None
        self.is_settled = False

    def left(self) -> list[Line]:
        """The lines that are still among them."""
        return [line for line in self.lines if line.beside is self]

    def settle(self) -> None:
        """All that are left were refused together, and what follows from that is noted."""
        lines = self.left()
        if len(lines) < len(self.lines):
            # Next time there are other lines.
            return
        self.kinds = tuple(dict.fromkeys([(line.key.queue, line.key.priority) for line in lines]))
        self.oldest_us = min([line.waiting[0][0] for line in lines if not line.key.late], default=None)
        self.is_settled = True


def run_time_class(pod: Pod) -> int:
    """A number for pods whose run times differ by less than a sixteenth, so that there are few lines; it is
    negative for those that may be interrupted.
    """
    said = [length_us for length_us in (pod.run_time_us, pod.run_time_max_us) if length_us is not None]
    run_time_us = min(said, default=0)
    length = run_time_us.bit_length()
    # The length of the number and its leading bits: 58 min 10 s to 60 min 23 s are one class, say.
    found = length << CLASS_BITS | run_time_us >> max(0, length - CLASS_BITS)
    # 0 is a class too, and has no negative.
    return -1 - found if pod.interruptible else found
