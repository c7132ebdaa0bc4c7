"""Where it is certain that nothing starts no place is put aside, and nothing is decided otherwise for that.

Random stories are decided by two engines, one of which is never certain. What they start, evict and reserve
is the same, and where, and what they say of work that waits.
"""

import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

from gpufleet.engine.cycle import never
from gpufleet.engine.instruction import AnyInstruction, RequeueAfter
from gpufleet.engine.reserve.reservations import HeldReservation
from gpufleet.engine.reserve.start_proof import StartProof
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.fleet_builder import SECOND_US, Story, binds, evicted, node, shape
from tests.engine.reserve.holders import guest, running

TEAMS = ("x", "y", "z")
STEPS = 150
SEEDS = 8
FORMER_HOLDER = 37
"""The seed of a story in which work that holds no place any more has guests on the one that it held."""


def fleet(reclaim: VictimScope) -> Story:
    """Three teams that own two nodes of four GPUs each, and may borrow."""
    story = Story()
    story.nodes(*(node(name, 4) for name in "abcdef"))
    policy = PreemptionPolicy(within_queue=VictimScope.NEVER, reclaim=reclaim)
    teams = (
        Queue(
            QueueName(name),
            parent=QueueName("all"),
            quotas=(Quota(GPU, 8000),),
            preemption=policy,
            reserve_after_us=5 * SECOND_US,
        )
        for name in TEAMS
    )
    story.queues(Queue(QueueName("all")), *teams)
    return story


def work(chance: random.Random, number: int) -> Pod:
    """A pod of one to four GPUs that says how long it runs, that it may be interrupted, or nothing."""
    needs, team = shape(chance.choice((1, 1, 2, 3, 4))), chance.choice(TEAMS)
    kind = chance.randrange(4)
    if kind == 0:
        return guest(f"p{number}", needs, queue=team)
    for_s = chance.choice((20, 60, 200)) if kind == 1 else None
    return running(f"p{number}", needs, for_s=for_s, queue=team)


def ranked(chance: random.Random, number: int) -> Pod:
    """The same with a priority, so that places change hands, and more of it may be interrupted."""
    one = msgspec.structs.replace(work(chance, number), priority=chance.choice((0, 0, 0, 10, 20)))
    is_guest = chance.random() < 0.4
    return msgspec.structs.replace(one, interruptible=True, run_time_us=None) if is_guest else one


def told(
    story: Story, chance: random.Random, make: Callable[[random.Random, int], Pod] = work
) -> Iterator[list[AnyInstruction]]:
    """What is said in each step of a story: pods come faster than they go. What starts is confirmed in a step
    of its own, and what is evicted ends at once.
    """
    there: dict[PodUid, Pod] = {}
    for number in range(STEPS):
        event = chance.randrange(10)
        if event < 4:
            one = make(chance, number)
            there[one.uid] = one
            said = story.arrive(one)
        elif event < 8 and there:
            gone = chance.choice(list(there))
            del there[gone]
            said = story.depart(gone)
        else:
            said = story.wait_s(chance.choice((0.5, 3, 70)))
        yield what_matters(said)
        for victim in map(PodUid, evicted(said)):
            there.pop(victim)
            yield what_matters(story.depart(victim))
        for uid, (name, devices) in binds(said).items():
            yield what_matters(story.run_on(there[PodUid(uid)], name, *devices))


def what_matters(said: list[AnyInstruction]) -> list[AnyInstruction]:
    """All but when a step is wanted next."""
    return [one for one in said if not isinstance(one, RequeueAfter)]


class Counting:
    """How often it was certain that nothing starts, and that some work does not."""

    def __init__(self, proof: StartProof) -> None:
        self.holds = proof.holds
        self.reservations = proof.reservations
        self.times = 0
        self.hopeless = 0

    def __call__(self, held: list[HeldReservation], at_us: int) -> bool:
        """As the proof says."""
        is_certain = self.holds(held, at_us)
        self.times += is_certain
        self.hopeless += not is_certain and bool(self.reservations.hopeless)
        return is_certain


@pytest.mark.parametrize("reclaim", [VictimScope.NEVER, VictimScope.ANY])
def test_what_is_certain_changes_no_decision(monkeypatch: pytest.MonkeyPatch, reclaim: VictimScope) -> None:
    times, hopeless = 0, 0
    for seed in range(SEEDS):
        proving, doubting = fleet(reclaim), fleet(reclaim)
        counting = Counting(proving.engine._cycle.start_proof)
        monkeypatch.setattr(proving.engine._cycle.start_proof, "holds", counting)
        monkeypatch.setattr(doubting.engine._cycle.start_proof, "holds", never)
        both = zip(told(proving, random.Random(seed)), told(doubting, random.Random(seed)), strict=True)
        for number, (with_proof, without) in enumerate(both):
            assert with_proof == without, f"seed {seed}, step {number}"
        times += counting.times
        hopeless += counting.hopeless
    # Otherwise the stories would say nothing.
    assert times > SEEDS
    assert hopeless > SEEDS, hopeless


def test_work_that_held_a_place_starts_where_its_guests_are(monkeypatch: pytest.MonkeyPatch) -> None:
    proving, doubting = fleet(VictimScope.NEVER), fleet(VictimScope.NEVER)
    monkeypatch.setattr(doubting.engine._cycle.start_proof, "holds", never)
    both = (told(one, random.Random(FORMER_HOLDER), ranked) for one in (proving, doubting))
    for number, (with_proof, without) in enumerate(zip(*both, strict=True)):
        assert with_proof == without, f"step {number}"
