"""Starts that are taken back at once, by the rules: docs/queues.md names each kind, here is a story of each.

All else that the engine and the reference agree in keeps work from starting for nothing.
"""

import msgspec

from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.reference.drive import SideBySide
from tests.engine.reference.judgement import Nomination, Start
from tests.engine.reference.picture import MILLI, Job, Machine
from tests.engine.reference.story import Arrival, End, Happening, Plan

BORROWS = PreemptionPolicy(borrowing=VictimScope.ANY)


class Diary(SideBySide):
    """A story that is written down: ``+a`` for a start, ``a>b`` for a nomination of b for which a ends."""

    def __init__(self, plan: Plan, lines: list[str]) -> None:
        super().__init__(plan)
        self.lines = lines

    def apply(self, decision: Start | Nomination) -> None:
        """Note a decision."""
        if isinstance(decision, Start):
            self.lines.append(f"+{decision.job.name}")
        else:
            ended = dict.fromkeys(self.job_name(uid) for uid in decision.victims)
            self.lines.append(f"{','.join(ended)}>{decision.job.name}")
        super().apply(decision)


def diary(queues: list[Queue], gpus: list[int], *happenings: Happening) -> str:
    """What is decided below a root that owns what its queues leave of the GPUs."""
    own = sum(one.quotas[0].nominal for one in queues if one.parent == "all") // MILLI
    left = Quota(GPU, MILLI * max(0, sum(gpus) - own))
    root = Queue(QueueName("all"), quotas=(left,))
    nodes = tuple(Machine(f"n{number}", count) for number, count in enumerate(gpus))
    lines: list[str] = []
    told = Diary(Plan((root, *queues), nodes, happenings), lines).run()
    assert not told.found
    return " ".join(lines)


def queue(
    name: str, own: int, *, policy: PreemptionPolicy | None = None, priority: int = 0, weight: int = 1
) -> Queue:
    """A queue that owns so many GPUs."""
    found = Queue(QueueName(name), parent=QueueName("all"), priority=priority, weight_milli=weight * 1000)
    quotas = (Quota(GPU, MILLI * own),)
    return msgspec.structs.replace(found, quotas=quotas, preemption=policy or found.preemption)


def comes(name: str, of: str, gpus: int, *, priority: int = 0, members: int = 0) -> Arrival:
    """A pod comes, or a gang of so many members."""
    job = Job(name, of, gpus=gpus, priority=priority, minimum=members or 1, is_gang=members > 0)
    return Arrival(job, members or 1)


def test_more_important_work_of_a_queue_takes_what_the_queue_took_back_for_less() -> None:
    """``big`` would borrow the third GPU, so nothing ends for it; ``small`` is owed two."""
    said = diary(
        [queue("a", 2), queue("b", 0)],
        [3],
        comes("other", "b", 2),
        comes("big", "a", 3, priority=1),
        comes("small", "a", 2),
    )
    assert said == "+other other>small +small small>big +big"


def test_a_policy_reaches_the_newcomer_and_not_what_ran_in_its_place() -> None:
    """``a`` takes back from lower priority alone: not from ``old``, but from ``new``."""
    lower = PreemptionPolicy(reclaim=VictimScope.LOWER_PRIORITY)
    said = diary(
        [queue("a", 2, policy=lower), queue("b", 0), queue("c", 0, priority=1, policy=BORROWS)],
        [2],
        comes("old", "b", 2, priority=1),
        comes("waits", "a", 2, priority=1),
        comes("new", "c", 2),
    )
    assert said == "+old old>new +new new>waits +waits"


def test_one_large_pod_is_taken_back_where_small_ones_were_not() -> None:
    """``b`` has borrowed one GPU: one small pod may go, which is too little, but so may the large one."""
    said = diary(
        [queue("a", 2), queue("b", 1)],
        [2],
        comes("small", "b", 1),
        comes("smaller", "b", 1),
        comes("waits", "a", 2),
        comes("large", "b", 2, priority=1),
    )
    assert said == "+small +smaller smaller,small>large +large large>waits +waits"


def test_work_that_would_borrow_is_owed_the_place_once_own_work_ends_with_the_newcomer() -> None:
    """``guest`` is older than ``waits``, and both would borrow. The last node alone has room for them. Once
    the two of one GPU have gone, too, ``waits`` is owed its two.
    """
    said = diary(
        [queue("a", 2), queue("b", 0), queue("c", 2)],
        [1, 1, 2],
        comes("runs", "c", 2),
        comes("low", "a", 1),
        comes("lower", "a", 1),
        comes("guest", "b", 2, priority=1),
        comes("waits", "a", 2, priority=1),
        End("runs"),
    )
    assert said == "+runs +low +lower +guest lower,low,guest>waits +waits"


def test_a_queue_of_higher_priority_borrows_though_owed_work_waits_behind_a_gang_that_would() -> None:
    """``gang`` comes first in ``a`` and would borrow, as ``guest`` would, whose queue has the priority."""
    said = diary(
        [queue("a", 1), queue("b", 0, priority=1)],
        [1],
        comes("runs", "a", 1, priority=1),
        comes("gang", "a", 1, members=2),
        comes("guest", "b", 1),
        comes("owed", "a", 1),
        End("runs"),
    )
    assert said == "+runs +guest guest>owed +owed"


def test_a_queue_that_lacks_something_of_its_own_goes_before_one_that_has_borrowed_as_little() -> None:
    """The same with queues of one priority: the guest does not start, whatever its weight."""
    said = diary(
        [queue("a", 1), queue("b", 0, weight=3)],
        [1],
        comes("runs", "a", 1, priority=1),
        comes("gang", "a", 1, members=2),
        comes("guest", "b", 1),
        comes("owed", "a", 1),
        End("runs"),
    )
    assert said == "+runs +owed"


def test_a_later_start_of_a_queue_lets_what_started_before_it_be_taken_back() -> None:
    """``first`` is older than ``waits``, and of an equal share. With ``small`` the share is larger."""
    said = diary(
        [queue("a", 0), queue("b", 0, policy=BORROWS), queue("c", 0)],
        [3],
        comes("runs", "c", 3, priority=1),
        comes("first", "a", 2),
        comes("small", "a", 1),
        comes("waits", "b", 2),
        End("runs"),
    )
    assert said == "+runs +first +small first>waits +waits"


def test_of_two_queues_that_both_lack_something_of_their_own_the_older_work_borrows() -> None:
    """``gang`` is older than ``large``, and both would borrow; ``owed`` waits behind ``large``."""
    said = diary(
        [queue("a", 1), queue("b", 2), queue("c", 2)],
        [3],
        comes("first", "b", 1),
        comes("runs", "c", 2),
        comes("gang", "a", 1, members=2),
        comes("large", "b", 3),
        comes("owed", "b", 1),
        End("runs"),
    )
    assert said == "+first +runs +gang gang>owed +owed"
