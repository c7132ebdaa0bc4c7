"""Work that comes and goes leaves nothing behind: no table, queue or dictionary grows for ever."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from gpufleet.engine import event
from gpufleet.engine.state.shapes import IDLE_SHAPES_MAX
from gpufleet.model.identifiers import GangName, NodeName, PodUid, QueueName
from gpufleet.model.queue import Queue
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape, share


def sizes(root: object) -> dict[str, int]:
    """The length of every container and array that can be reached from an object, by path."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo = [("engine", root)]
    while todo:
        path, one = todo.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | None):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            found[path] = found.get(path, 0) + one.size
        elif isinstance(one, dict | list | set):
            found[path] = found.get(path, 0) + len(one)
            values = one.values() if isinstance(one, dict) else one
            todo += [(f"{path}[]", value) for value in values]
        else:
            todo += [(f"{path}.{name}", value) for name, value in fields(one)]
    return found


def fields(one: object) -> Iterable[tuple[str, object]]:
    """The fields of an engine's own object; values of the model have nothing that grows."""
    if not type(one).__module__.startswith("gpufleet.engine"):
        return []
    if isinstance(one, tuple):
        return list(zip(getattr(one, "_fields", ()), one, strict=False))
    slots = getattr(type(one), "__slots__", ())
    named = [name for name in slots if hasattr(one, name)]
    return [*((name, getattr(one, name)) for name in named), *getattr(one, "__dict__", {}).items()]


def grown(told: Story, round_of: Callable[[Story, int], None], rounds: int = 120) -> dict[str, int]:
    """What has grown with the rounds when there were twice as many.

    A heap may hold up to a hundred entries that are out of date before it is swept.
    """
    for number in range(rounds):
        round_of(told, number)
    before = sizes(told.engine)
    for number in range(rounds, 2 * rounds):
        round_of(told, number)
    after = sizes(told.engine)
    more = {path: size - before.get(path, 0) for path, size in after.items()}
    return {path: size for path, size in more.items() if size > 100}


def nodes_come_and_go(told: Story, number: int) -> None:
    """Nodes with names, labels and devices of their own, some taken away with pods on them."""
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "rack": f"rack-{number}", f"only-on-{name}": "yes"}
    told.nodes(node(name, number % 5, labels=labels))
    told.arrive(pod(f"p{number}", shape()), pod(f"q{number}", share(500)))
    told.lose(name)
    told.depart(f"p{number}", f"q{number}")


def work_comes_and_goes(told: Story, number: int) -> None:
    """Pods run, are refused, wait, and end."""
    pods = [pod(f"p{number}-{index}", share(500), priority=index % 3) for index in range(8)]
    told.arrive(*pods)
    told.refuse(pods[0].uid, pods[1].uid)
    told.wait_s(61)
    told.depart(*(one.uid for one in pods))


def gangs_come_and_go(told: Story, number: int) -> None:
    """Gangs that start, that wait, and that are never described."""
    told.gangs(gang(f"g{number}", 2), gang(f"h{number}", 9), gang(f"empty{number}", 1))
    pods = [
        one for name in (f"g{number}", f"h{number}", f"u{number}") for one in members(name, 3, share(200))
    ]
    told.arrive(*pods)
    told.depart(*(one.uid for one in pods))
    told.happen(*(event.GangRemoved(GangName(f"{kind}{number}")) for kind in ("g", "h", "empty")))


def queues_come_and_go(told: Story, number: int) -> None:
    """Queues with work of their own."""
    name = QueueName(f"queue-{number}")
    told.happen(event.QueueSet(Queue(name, strict=number % 2 == 0)))
    pods = [pod(f"{name}-{index}", share(700), queue=name) for index in range(5)]
    told.arrive(*pods)
    told.depart(*(one.uid for one in pods))
    told.happen(event.QueueRemoved(name))


def odd_names_come_and_go(told: Story, number: int) -> None:
    """Extended resources and GPU models that nobody has ever heard of."""
    needs = shape(1, models=(f"model-{number}",), other=((f"example.com/thing-{number}", 1),))
    told.arrive(pod(f"p{number}", needs))
    told.depart(f"p{number}")


@pytest.mark.parametrize(
    "round_of", [nodes_come_and_go, work_comes_and_goes, gangs_come_and_go, queues_come_and_go]
)
def test_nothing_is_left_of_what_came_and_went(round_of: Callable[[Story, int], None]) -> None:
    told = Story()
    told.levels("rack")
    told.nodes(node("n", 2))
    assert grown(told, round_of) == {}


@pytest.mark.parametrize("blocked_queue_is_strict", [True, False])
def test_nothing_is_left_of_what_came_and_went_behind_a_blocked_head(blocked_queue_is_strict: bool) -> None:
    told = Story()
    told.queue("team", strict=blocked_queue_is_strict)
    told.nodes(node("n", 2))
    told.arrive(pod("head", shape(4), queue="team"), pod("another", share(500), queue="team"))

    def churn(story: Story, number: int) -> None:
        needs = (shape(4), share(500), share(300 + number % 7))
        pods = [
            pod(f"p{number}-{index}", one, queue="team", created_at_us=-number)
            for index, one in enumerate(needs)
        ]
        story.arrive(*pods, pod(f"late{number}", shape(4), queue="team", created_at_us=number))
        story.depart(f"late{number}", *(one.uid for one in reversed(pods)))

    assert grown(told, churn, rounds=300) == {}


def test_gangs_that_lose_and_gain_members_behind_a_blocked_head_leave_nothing() -> None:
    told = Story()
    told.queue("team", strict=True)
    told.nodes(node("n", 2))
    told.gangs(gang("g", 2, queue="team"))
    told.arrive(pod("head", shape(4), queue="team"), *members("g", 2, shape(1)))

    def churn(story: Story, number: int) -> None:
        uid = f"g-late-{number}"
        story.arrive(pod(uid, shape(1), gang="g"))
        story.depart(uid)

    assert grown(told, churn, rounds=300) == {}


def test_shapes_without_pods_are_forgotten_after_a_while() -> None:
    told = Story()
    told.nodes(node("n", 2))
    for number in range(IDLE_SHAPES_MAX + 500):
        told.happen(
            event.PodAdded(pod(f"p{number}", shape(cpu_milli=number))),
            event.PodRemoved(PodUid(f"p{number}")),
        )
    book = told.engine.state.shapes
    assert len(book.row_by_shape) == IDLE_SHAPES_MAX
    assert len(book.shapes) <= IDLE_SHAPES_MAX + 1


def test_a_row_of_a_forgotten_shape_does_not_keep_its_verdict() -> None:
    told = Story()
    told.nodes(node("n", 2), node("m"))
    told.arrive(pod("first", shape(3)))
    assert told.explain("first") == {"no-gpu": 1, "gpu-count": 1}
    told.depart("first")
    for number in range(IDLE_SHAPES_MAX):
        told.happen(
            event.PodAdded(pod(f"p{number}", shape(9, cpu_milli=number))),
            event.PodRemoved(PodUid(f"p{number}")),
        )
    told.arrive(pod("second", shape(cpu_milli=64_001)))
    assert told.explain("second") == {"cpu": 2}


def test_names_that_nobody_uses_any_more_are_forgotten() -> None:
    told = Story()
    told.nodes(node("n", 2))
    for number in range(IDLE_SHAPES_MAX + 200):
        odd_names_come_and_go(told, number)
    state = told.engine.state
    assert len(state.fleet.resource_columns) <= IDLE_SHAPES_MAX
    assert NodeName("n") in state.fleet.row_by_name


def test_pods_of_equal_shapes_keep_one_shape() -> None:
    """Each pod is read from a document of its own, with a shape of its own."""
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("first", shape(1)), pod("second", shape(1)))
    pods = told.engine.state.pods
    first, second = (pods.pod_at(pods.row_by_uid[PodUid(name)]) for name in ("first", "second"))
    assert first.shape is second.shape
    assert first.shape == shape(1)


def test_a_pod_that_is_described_anew_keeps_no_shape_of_its_own() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("known", shape(2)), pod("changed", shape(1)))
    told.arrive(pod("changed", shape(2)))
    pods = told.engine.state.pods
    known, changed = (pods.pod_at(pods.row_by_uid[PodUid(name)]) for name in ("known", "changed"))
    assert changed.shape is known.shape
