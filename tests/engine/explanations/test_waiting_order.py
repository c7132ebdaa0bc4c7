"""Pods of a line are told what each would be told by itself, although they share a verdict where they may."""

import random

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.explanations.verdicts import Verdicts
from gpufleet.engine.instruction import AnyInstruction, Bind, Unschedulable
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.queue import GPU, AdmittedNamespaces, Queue, QueueState, Quota
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, refused, shape

STATES = (QueueState.OPEN, QueueState.OPEN, QueueState.OPEN, QueueState.DRAINING, QueueState.HELD)
NAMESPACES = ("lab", "shop")


def random_queue(chance: random.Random, name: str) -> Queue:
    """A queue that owns some GPUs, may drain, may admit one namespace alone and may reserve soon."""
    admitted = AdmittedNamespaces(("lab",)) if chance.random() < 0.2 else None
    return Queue(
        QueueName(name),
        parent=QueueName("all"),
        state=chance.choice(STATES),
        quotas=(Quota(GPU, 1000 * chance.choice((0, 2, 4))),),
        reserve_after_us=chance.choice((None, None, 5 * SECOND_US)),
        admitted=admitted,
    )


def play(seed: int) -> list[list[AnyInstruction]]:
    """Alike pods come and go, several at once, and queues change; what was said in each step."""
    chance = random.Random(seed)
    told = Story(seed=seed)
    said = [told.happen(event.QueueSet(Queue(QueueName("all"), quotas=(Quota(GPU, 6000),))))]
    said.append(told.happen(*(event.QueueSet(random_queue(chance, name)) for name in "ab")))
    told.nodes(node("n0", 4), node("n1", 4))
    running: list[PodUid] = []
    for number in range(12):
        told.at_us += chance.choice((0, SECOND_US, 10 * SECOND_US))
        events: list[event.Event] = []
        if chance.random() < 0.2:
            events.append(event.QueueSet(random_queue(chance, chance.choice("ab"))))
        if running and chance.random() < 0.5:
            events.append(event.PodRemoved(running.pop()))
        for one in range(chance.randint(0, 6)):
            needs = shape(chance.choice((1, 1, 2)))
            queue, namespace = chance.choice("ab"), chance.choice(NAMESPACES)
            events.append(event.PodAdded(pod(f"{number}-{one}", needs, queue=queue, namespace=namespace)))
        said.append(told.happen(*events))
        running += [one.uid for one in said[-1] if isinstance(one, Bind)]
    return said


@pytest.mark.parametrize("seed", seeds(40))
def test_pods_of_a_line_are_told_what_each_is_told_alone(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    said = play(seed)
    monkeypatch.setattr(Verdicts, "_are_alike_in_a_line", lambda _verdicts: False)
    assert msgspec.json.encode(said) == msgspec.json.encode(play(seed))


def test_pods_that_nothing_tells_apart_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    verdict_of = Verdicts.of

    def noted(verdicts: Verdicts, row: int, at_us: int) -> object:
        asked.append(row)
        return verdict_of(verdicts, row, at_us)

    monkeypatch.setattr(Verdicts, "of", noted)
    told = Story()
    told.nodes(node("n0", 1))
    said = told.arrive(*(pod(f"p{number}", shape(2)) for number in range(50)))
    assert len(refused(said)) == len([one for one in said if isinstance(one, Unschedulable)]) == 50
    assert len(asked) == 1
