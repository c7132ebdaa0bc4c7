"""The same events give the same instructions, byte for byte, whatever the process's hash seed."""

import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Rejected
from gpufleet.engine.policy import POLICIES
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, pod, topology
from tests.engine.random_fleets import odd_node, odd_shape
from tests.engine.relation_builder import app
from tests.engine.test_neighbours import any_claim, any_shape

ROOT = Path(__file__).parents[2]


def tell(policy: str, seed: int, rounds: int = 120) -> Story:
    """A story drawn from a seed: many kinds of events, labels and gangs."""
    chance = random.Random(seed)
    told = Story(policy, seed=seed)
    needs = [odd_shape(chance) for _ in range(12)]
    told.happen(
        event.TopologySet(topology("rack")),
        event.TargetWorkloadSet(tuple((one, 1 + index) for index, one in enumerate(needs))),
    )
    for number in range(12):
        one = odd_node(chance, f"n{number}")
        labels = {"rack": f"r{number % 3}", "host": one.name, "zone": "xyz"[number % 3]}
        told.nodes(msgspec.structs.replace(one, labels=labels))
    claims = [any_claim(chance, f"c{number}") for number in range(5)]
    told.namespace("other", team="x", stage="late")
    for number in range(rounds):
        told.at_us += chance.choice((0, 1, SECOND_US))
        told.arrive(pod(f"p{number}", chance.choice(needs), queue=chance.choice("ab"), priority=number % 3))
        space, own = chance.choice(("", "other")), chance.choice("abc")
        asks = any_shape(chance, space, own, claims)
        told.arrive(pod(f"r{number}", asks, namespace=space, labels=app(own)))
        if number % 10 == 0:
            told.gangs(gang(f"g{number}", 2, level=chance.choice((None, "rack"))))
            told.arrive(*members(f"g{number}", 3, chance.choice((*needs, asks))))
        bound = sorted(told.binds)
        if bound:
            uid = PodUid(chance.choice(bound))
            told.happen(chance.choice((event.PodRemoved(uid), event.BindRefused(uid))))
        if number % 17 == 0:
            told.lose(f"n{chance.randrange(12)}")
            told.nodes(odd_node(chance, f"n{chance.randrange(12)}"))
        if told.engine.state.policy.valuation_is_due():
            told.happen(told.engine.study())
    return told


def transcript(policy: str, seed: int) -> bytes:
    """What was said, as canonical JSON."""
    # The search for victims makes a long story slow, and this one is told for each policy.
    return msgspec.json.encode(tell(policy, seed, rounds=40).said)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_story_told_again_gives_the_same_bytes(policy: str) -> None:
    # The search for victims makes a long story slow, and this one is told for each policy.
    told = tell(policy, 5, rounds=40)
    again = Story(policy, seed=5)
    for at_us, events in told.told:
        again.at_us = at_us
        again.happen(*events)
    assert msgspec.json.encode(again.said) == msgspec.json.encode(told.said)
    assert len(told.binds) > 20


def test_questions_between_the_steps_change_no_answer() -> None:
    told = tell("gpufleet", 7)
    again = Story("gpufleet", seed=7)
    asked = 0
    for at_us, events in told.told:
        again.at_us = at_us
        again.happen(*events)
        for number in range(0, 120, 10):
            asked += again.engine.explain_gang(GangName(f"g{number}")) is not None
            again.engine.explain(PodUid(f"p{number}"))
    assert asked, "no gang ever waited: the story proves nothing"
    assert msgspec.json.encode(again.said) == msgspec.json.encode(told.said)


def test_another_story_gives_other_bytes() -> None:
    assert transcript("best-fit", 1) != transcript("best-fit", 2)


def test_fresh_processes_with_any_hash_seed_give_the_same_bytes() -> None:
    script = (
        "import sys; from tests.engine.test_determinism import transcript, POLICIES; "
        "sys.stdout.buffer.write(b'\\n'.join(transcript(name, 9) for name in sorted(POLICIES)))"
    )
    path = os.pathsep.join([str(ROOT), *sys.path])
    printed = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    ]
    assert len(printed[0]) > 10_000
    assert printed[0] == printed[1]


def test_events_survive_the_log_unchanged() -> None:
    told = tell("fgd", 3)
    events = [one for _, events in told.told for one in events]
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[event.AnyEvent]) == events
    said = [one for one in told.said if not isinstance(one, Rejected)]
    assert msgspec.json.decode(msgspec.json.encode(said), type=list[AnyInstruction]) == said
    assert any(isinstance(one, Bind) and one.volumes for one in said)
    assert NodeName("n0") in {one.node.name for one in events if isinstance(one, event.NodeSet)}
