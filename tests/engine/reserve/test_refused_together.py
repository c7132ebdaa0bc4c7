"""Lines that are refused together are refused as they would be in turn, and are not visited one by one."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict
from gpufleet.engine.queueing.line import Line
from gpufleet.engine.serving.pods import PodLines
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.queue import CPU, GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, node, placed, pod, shape, share

NEEDS = (shape(1), shape(1), shape(1, cpu_milli=2000), shape(2), share(500), shape(cpu_milli=2000))
SCOPES = (VictimScope.NEVER, VictimScope.LOWER_PRIORITY, VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY)


def in_turn(monkeypatch: pytest.MonkeyPatch, story: Story) -> Story:
    """The story with an engine in which every line that is called is visited in its turn."""
    waiting = story.engine.state.waiting

    def wake_each(numbers: Int64Array) -> None:
        for line in [waiting.kept_out.key_at(number) for number in numbers.tolist()]:
            waiting.wake(line.key)

    monkeypatch.setattr(waiting, "call", wake_each)
    return story


class Twins:
    """Two engines that hear the same, of which one visits every line in its turn: both must say the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.together = Story("gpufleet")
        self.in_turn = in_turn(monkeypatch, Story("gpufleet"))

    def happen(self, after_s: int, *events: event.Event) -> list[AnyInstruction]:
        """A step of both."""
        self.together.at_us += after_s * SECOND_US
        self.in_turn.at_us += after_s * SECOND_US
        said = self.together.happen(*events)
        assert said == self.in_turn.happen(*events)
        return said


def random_queues(chance: random.Random, gpus: int) -> list[Queue]:
    """Queues below some others and a root, which own a part of the GPUs each and may borrow."""
    queues = [Queue(QueueName("all"))]
    scope = chance.choice((*SCOPES, VictimScope.LOWER_PRIORITY))
    policy = PreemptionPolicy(scope, reclaim=chance.choice((VictimScope.NEVER, VictimScope.ANY)))
    for number in range(chance.randint(2, 6)):
        quotas = [Quota(GPU, 1000 * chance.choice((0, 1, gpus // 4)), chance.choice((None, None, 1000)))]
        if chance.random() < 0.3:
            quotas.append(Quota(CPU, 1000 * chance.choice((gpus // 2, gpus))))
        queues.append(
            Queue(
                QueueName(f"q{number}"),
                chance.choice((0, 0, 0, 1)),
                strict=chance.random() < 0.1,
                parent=chance.choice((queues[0], queues[0], *queues[1:2])).name,
                quotas=tuple(quotas),
                preemption=policy,
                reserve_after_us=chance.choice((None, 20 * SECOND_US, 300 * SECOND_US)),
            )
        )
    return queues


@pytest.mark.parametrize("seed", seeds(60))
def test_lines_are_refused_together_as_they_are_in_turn(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    twins, gpus = Twins(monkeypatch), chance.choice((4, 8, 16))
    queues = random_queues(chance, gpus)
    names = [queue.name for queue in queues[1:]]
    twins.happen(1, *map(event.QueueSet, queues))
    twins.happen(1, *(event.NodeSet(node(f"n{number}", 4, cpu_milli=12_000)) for number in range(gpus // 4)))
    running: list[PodUid] = []
    for round_number in range(8):
        priorities = (0, 0, 0, chance.choice((0, 1)))
        jobs = [
            pod(
                f"{round_number}-{number}",
                chance.choice(NEEDS),
                queue=chance.choice(names),
                priority=chance.choice(priorities),
                created_at_us=twins.together.at_us - chance.choice((0, 0, SECOND_US)),
            )
            for number in range(chance.randint(0, 12))
        ]
        chance.shuffle(running)
        gone, running = running[: chance.randint(0, 3)], running[3:] + running[:3]
        running = [uid for uid in running if uid not in gone]
        said = twins.happen(1, *map(event.PodAdded, jobs), *map(event.PodRemoved, gone))
        said += twins.happen(chance.choice((0, 1, 30)))
        running += [one.uid for one in said if isinstance(one, Bind)]
        running += [one.uid for one in said if isinstance(one, Evict) and one.uid not in running]


def test_one_gpu_that_falls_free_is_not_offered_to_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen queues wait for what one may have: the work of one starts, that of another is asked in vain."""
    story = Story()
    root, owned = QueueName("all"), (Quota(GPU, 1000),)
    owners = [Queue(QueueName(f"q{number}"), parent=root, quotas=owned) for number in range(16)]
    story.happen(event.QueueSet(Queue(root, quotas=(Quota(GPU, hard_limit=2000),))))
    story.happen(*map(event.QueueSet, owners), event.NodeSet(node("n", 4)))
    wanted = [pod(f"p{number:02}", shape(1), queue=f"q{number % 16}") for number in range(48)]
    assert len(placed(story.arrive(*wanted))) == 2
    visited: list[int] = []
    serve = PodLines.serve

    def noted(serving: PodLines, line: Line) -> bool:
        visited.append(line.waiting[0][-1])
        return serve(serving, line)

    monkeypatch.setattr(PodLines, "serve", noted)
    assert len(placed(story.depart("p00"))) == 1
    assert len(visited) == 2
