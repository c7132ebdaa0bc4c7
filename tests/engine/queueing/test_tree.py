"""Trees of queues: limits by hand, what is wrong with a queue, and sizes."""

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays import layout
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.queueing.tree import DEPTH_MAX, QUEUES_MAX
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Queue, QueueState, Quota
from tests.engine.fleet_builder import Story, node, pod, problems, shape
from tests.engine.queueing.queue_builder import available, queue, quota, used

GPUS = 1000


def story(*queues: Queue, gpus: int = 16) -> Story:
    """An engine with one large node and these queues."""
    told = Story()
    told.nodes(node("n", gpus))
    told.happen(*(event.QueueSet(one) for one in queues))
    return told


def bar(told: Story, name: str) -> str | None:
    """Why no work of the queue may start."""
    tree = told.engine.state.queues.tree
    found = tree.bar(tree.row_by_name[QueueName(name)])
    return None if found is None else f"{found.queue} {found.why}"


def test_a_root_may_take_its_nominal_amount() -> None:
    told = story(queue("team", quota("gpu", 4 * GPUS)))
    assert available(told.engine.state, "team", "gpu") == 4 * GPUS
    told.arrive(pod("a", shape(3), queue="team"))
    assert used(told.engine.state, "team", "gpu") == (3 * GPUS, 3 * GPUS)
    assert available(told.engine.state, "team", "gpu") == 1 * GPUS


def test_what_a_sibling_leaves_idle_may_be_borrowed() -> None:
    told = story(
        queue("root"),
        queue("a", quota("gpu", 4 * GPUS), parent="root"),
        queue("b", quota("gpu", 4 * GPUS), parent="root"),
    )
    told.arrive(pod("one", shape(3), queue="b"))
    # The pool is 8, 3 are in use.
    assert available(told.engine.state, "a", "gpu") == 5 * GPUS
    assert available(told.engine.state, "b", "gpu") == 5 * GPUS
    assert used(told.engine.state, "root", "gpu") == (3 * GPUS, 3 * GPUS)


def test_a_borrowing_limit_ends_what_may_be_borrowed() -> None:
    told = story(
        queue("root"),
        queue("a", quota("gpu", 4 * GPUS, borrow=1 * GPUS), parent="root"),
        queue("b", quota("gpu", 4 * GPUS), parent="root"),
    )
    assert available(told.engine.state, "a", "gpu") == 5 * GPUS


def test_a_lending_limit_keeps_the_rest_for_its_owner() -> None:
    told = story(
        queue("root"),
        queue("a", quota("gpu", 4 * GPUS), parent="root"),
        queue("b", quota("gpu", 4 * GPUS, lend=1 * GPUS), parent="root"),
    )
    state = told.engine.state
    assert available(state, "a", "gpu") == 5 * GPUS
    assert available(state, "b", "gpu") == 8 * GPUS
    told.arrive(pod("one", shape(2), queue="b"))
    # b is guaranteed 3, and 2 are covered by that: the pool does not feel them.
    assert used(state, "b", "gpu") == (2 * GPUS, 2 * GPUS)
    assert used(state, "root", "gpu") == (0, 2 * GPUS)
    assert available(state, "a", "gpu") == 5 * GPUS
    told.arrive(pod("two", shape(2), queue="b"))
    assert used(state, "root", "gpu") == (1 * GPUS, 4 * GPUS)
    assert available(state, "a", "gpu") == 4 * GPUS


def test_a_hard_limit_holds_for_everything_below_it() -> None:
    told = story(
        queue("root", quota("gpu", 8 * GPUS, hard=3 * GPUS)),
        queue("a", parent="root"),
        queue("b", quota("gpu", 8 * GPUS, lend=0), parent="root"),
    )
    told.arrive(pod("one", shape(2), queue="b"))
    assert available(told.engine.state, "a", "gpu") == 1 * GPUS
    assert available(told.engine.state, "b", "gpu") == 1 * GPUS


def test_what_no_queue_of_the_path_names_is_not_limited_and_takes_nothing_from_others() -> None:
    told = story(
        queue("root"),
        queue("a", quota("gpu", 4 * GPUS), parent="root"),
        queue("b", quota("cpu", 64_000), parent="root"),
    )
    assert available(told.engine.state, "b", "gpu") is None
    told.arrive(pod("one", shape(6), queue="b"))
    assert available(told.engine.state, "a", "gpu") == 4 * GPUS
    assert used(told.engine.state, "root", "gpu") == (0, 6 * GPUS)


def test_what_only_an_ancestor_names_is_nominally_nothing_below_it() -> None:
    told = story(queue("root", quota("gpu", 2 * GPUS)), queue("a", parent="root"))
    assert available(told.engine.state, "a", "gpu") == 2 * GPUS


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        (quota("gpu", -1), "nominal"),
        (quota("gpu", 1, borrow=-1), "borrowing_limit"),
        (quota("gpu", 1, lend=2), "lending_limit"),
        (quota("gpu", 1, lend=-1), "lending_limit"),
        (quota("gpu", 1, hard=-1), "hard_limit"),
        (quota("gpu", 1 << 57), "nominal"),
        (quota("gpus", 1), "gpus"),
        (quota("gpu/", 1), "gpu/"),
        (quota("nvidia.com/gpu", 1), "nvidia.com/gpu"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused_by_its_field(stated: Quota, field: str) -> None:
    told = story(queue("team", quota("gpu", 4)))
    told_problems = problems(told.happen(event.QueueSet(queue("team", stated))))
    assert len(told_problems) == 1
    assert "queue team: quotas" in told_problems[0]
    assert field in told_problems[0]
    assert available(told.engine.state, "team", "gpu") == 4, "the last good statement holds"


def test_a_negative_weight_is_refused_and_none_is_welcome() -> None:
    told = story(Queue(QueueName("idle"), weight_milli=0))
    assert problems(told.said) == []
    assert "weight_milli" in problems(told.happen(event.QueueSet(Queue(QueueName("x"), weight_milli=-1))))[0]
    huge = event.QueueSet(Queue(QueueName("x"), weight_milli=10**308))
    assert "weight_milli" in problems(told.happen(huge))[0]


def test_a_resource_named_twice_is_refused() -> None:
    told = Story()
    said = told.happen(event.QueueSet(queue("team", quota("gpu", 1), quota("gpu", 2))))
    assert "named twice" in problems(said)[0]


def test_a_queue_that_is_its_own_parent_waits_alone() -> None:
    told = story(queue("self", parent="self"), queue("other", quota("gpu", GPUS)))
    assert bar(told, "self") == "self cycle"
    assert bar(told, "other") is None


def test_members_of_a_cycle_wait_and_those_below_them_too_but_nobody_else() -> None:
    told = story(
        queue("a", parent="c"),
        queue("b", parent="a"),
        queue("c", parent="b"),
        queue("below", parent="a"),
        queue("other"),
    )
    assert [bar(told, name) for name in "abc"] == ["a cycle", "b cycle", "c cycle"]
    assert bar(told, "below") == "a cycle"
    assert bar(told, "other") is None
    told.happen(event.QueueSet(queue("c")))
    assert bar(told, "below") is None
    assert bar(told, "b") is None
    assert bar(told, "c") == "c inner"


def test_a_queue_waits_for_its_parent_to_appear() -> None:
    told = story(queue("a", quota("gpu", GPUS), parent="root"), queue("below", parent="a"))
    assert bar(told, "a") == "a no-parent"
    assert bar(told, "below") == "a no-parent"
    told.happen(event.QueueSet(queue("root")))
    assert bar(told, "below") is None
    told.happen(event.QueueRemoved(QueueName("root")))
    assert bar(told, "below") == "a no-parent"


@pytest.mark.parametrize("state", [QueueState.HELD, QueueState.STOPPED])
def test_what_holds_for_a_queue_holds_below_it(state: QueueState) -> None:
    told = story(queue("root", state=state), queue("a", parent="root"))
    assert bar(told, "a") == f"root {state}"


def test_a_tree_may_be_a_thousand_deep() -> None:
    chain = [queue("q0", quota("gpu", 8 * GPUS))]
    chain += [queue(f"q{depth}", parent=f"q{depth - 1}") for depth in range(1, 1000)]
    told = story(*chain)
    told.arrive(pod("deep", shape(3), queue="q999"))
    assert used(told.engine.state, "q0", "gpu") == (3 * GPUS, 3 * GPUS)
    assert available(told.engine.state, "q999", "gpu") == 5 * GPUS
    told.depart("deep")
    assert used(told.engine.state, "q0", "gpu") == (0, 0)


def test_what_stands_too_deep_waits_and_nobody_else() -> None:
    chain = [queue("q0"), *(queue(f"q{depth}", parent=f"q{depth - 1}") for depth in range(1, DEPTH_MAX + 2))]
    told = story(*chain)
    assert bar(told, f"q{DEPTH_MAX - 1}") is None
    assert bar(told, f"q{DEPTH_MAX}") == f"q{DEPTH_MAX} too-deep"
    assert bar(told, f"q{DEPTH_MAX + 1}") == f"q{DEPTH_MAX} too-deep"


def test_a_tree_may_be_ten_thousand_wide_and_no_wider_than_the_bound() -> None:
    told = story(queue("root"), *(queue(f"q{n}", quota("gpu", GPUS), parent="root") for n in range(10_000)))
    assert available(told.engine.state, "q77", "gpu") == 10_000 * GPUS
    said = told.happen(*(event.QueueSet(queue(f"more{n}")) for n in range(QUEUES_MAX - 10_000)))
    assert len(problems(said)) == 1
    assert "queues" in problems(said)[0]


def test_columns_are_given_back_and_their_number_is_bounded() -> None:
    told = story(queue("team", *(quota(f"example.com/{number}", 1) for number in range(64))))
    full = told.happen(event.QueueSet(queue("other", quota("gpu", 1))))
    assert "resources named" in problems(full)[0]
    swapped = [quota(f"example.com/{number}", 1) for number in range(63)]
    assert problems(told.happen(event.QueueSet(queue("team", *swapped, quota("gpu", 1))))) == []
    assert problems(told.happen(event.QueueRemoved(QueueName("team")))) == []
    assert told.engine.state.queues.resources.column_by_name == {}


def test_a_bad_statement_raises_before_anything_is_changed() -> None:
    told = story(queue("team", quota("gpu", GPUS)))
    tree = told.engine.state.queues.tree
    with pytest.raises(EventError):
        tree.set(queue("team", quota("cpu", 5), quota("memory", -1)))
    assert not tree.is_stale
    assert set(tree.resources.column_by_name) == {"gpu"}


def test_nothing_is_charged_once_the_last_queue_is_gone() -> None:
    told = story(queue("team", quota("gpu", 4 * GPUS)))
    told.arrive(pod("a", shape(1), queue="team"))
    told.happen(event.QueueRemoved(QueueName("team")))
    tables = told.engine.state.store.tables
    row = told.engine.state.pods.row_by_uid[pod("a").uid]
    assert tables.pods[layout.POD_QUEUE, row] == layout.NOT_SET
    assert not tables.queue_total.any()
    told.depart("a")
    told.happen(event.QueueSet(queue("team", quota("gpu", 4 * GPUS))))
    assert available(told.engine.state, "team", "gpu") == 4 * GPUS
