"""Nobody is moved in circles: without new work, moves come to an end, and nobody waits longer for them.

Controllers make each moved pod anew, at once or later; fleets, work and budgets are random. The bound is by
hand: each automatic start lowers the number of workloads that wait, and each run by the clock makes what is
free worth more, of which there is only so much.
"""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Evict
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from tests.engine.defragment.moving_fleet import MINUTE_US, anew, confirm, fleet
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import Story, gang, members, pod, shape, share

ROUNDS = 40
SIZES = (2, 4, 8)


def begin(chance: random.Random) -> Story:
    """A random fleet, half full, whose pods may be moved."""
    by_clock = chance.random() < 0.7
    rules = DefragmentationRules(MINUTE_US, MINUTE_US * 5 if by_clock else None, moves_a_day=10_000)
    told = fleet(*(chance.choice(SIZES) for _ in range(chance.randint(2, 5))), rules=rules)
    needs = (shape(1), shape(1), shape(2), shape(3), share(250), share(500))
    uids = [f"p{number}" for number in range(30)]
    confirm(told, told.arrive(*(pod(uid, chance.choice(needs)) for uid in uids)))
    told.depart(*(uid for uid in uids if chance.random() < 0.6 or uid not in told.binds))
    for number in range(chance.randint(0, 3)):
        told.arrive(pod(f"w{number}", shape(chance.choice(SIZES)), created_at_us=told.at_us))
    if chance.random() < 0.4:
        told.gangs(gang("g", 2))
        told.arrive(*members("g", 2, shape(chance.choice((1, 2, 4)))))
    return told


def without_place(told: Story) -> int:
    """How many known pods wait."""
    pods = told.engine.state.pods
    return sum(
        pods.node_row(row) is None for uid, row in pods.row_by_uid.items() if not uid.endswith("/moved")
    )


@pytest.mark.parametrize("seed", range(25 * EFFORT))
def test_moves_come_to_an_end(seed: int) -> None:
    chance = random.Random(seed)
    told = begin(chance)
    waiting = without_place(told)
    to_come: list[Pod] = []
    leaving: list[PodUid] = []
    starts, quiet, number = 0, 0, 0
    for _ in range(ROUNDS):
        said: list[AnyInstruction] = told.wait_s(60)
        if leaving and chance.random() < 0.8:
            more = told.depart(*leaving)
            leaving = []
            confirm(told, more)
            said = [*said, *more]
        if to_come and chance.random() < 0.8:
            more = told.happen(*map(event.PodAdded, to_come))
            to_come = []
            said = [*said, *more]
            confirm(told, more)
        confirm(told, said)
        victims = [one for one in said if isinstance(one, Evict)]
        starts += len({one.beneficiary for one in victims if one.beneficiary is not None})
        for one in victims:
            number += 1
            to_come.append(anew(told, one.uid, f"m{number}"))
            leaving.append(one.uid)
        quiet = 0 if victims or leaving or to_come else quiet + 1
    assert quiet >= 6, "pods are still being moved"
    assert starts <= waiting
    assert without_place(told) <= waiting - starts, "somebody was sent back to wait"
