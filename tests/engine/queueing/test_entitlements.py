"""What the queues of a tree are owed: published examples and trees by hand."""

from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.queueing.entitlements import Level, top_down
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.queue import GPU, Quota
from tests.engine.queueing.tree_builder import PlannedTree, queue

MANY = 1_000_000


def owed(planned: PlannedTree, unit: int = 1, **wanted: int) -> dict[str, int]:
    """What each queue is owed of its GPUs if leaves want so many."""
    tree = planned.tree
    by_row = {planned.row(name): amount for name, amount in wanted.items()}
    found = Level(tree, planned.column(GPU), by_row, unit).owed_by_row(top_down(tree))
    return {tree.name_at(row): amount for row, amount in found.items()}


def test_kueues_third_story() -> None:
    """Kueue, KEP-1714, story 3: CS with one queue of 300 GPUs, C1 with 1A, 1B and 1C, 1C three times as
    important, C2 with 2A, all with a long backlog but CS: 150 for 2A, 30, 30 and 90 in C1.
    """
    planned = PlannedTree(
        queue("org", gpu=0),
        queue("CS", "org"),
        queue("S", "CS", gpu=300),
        queue("C1", "org"),
        queue("A1", "C1"),
        queue("B1", "C1"),
        queue("C1C", "C1", weight=3),
        queue("C2", "org"),
        queue("A2", "C2"),
    )
    found = owed(planned, A1=MANY, B1=MANY, C1C=MANY, A2=MANY)
    assert (found["C1"], found["C2"]) == (150, 150)
    assert [found[name] for name in ("A1", "B1", "C1C", "A2", "S")] == [30, 30, 90, 150, 0]


def test_the_owner_is_owed_its_nominal_amount_before_all_others() -> None:
    """By hand: a and b state 4 each, c nothing, 8 in all. b wants 1, so 3 are left over for a and c."""
    planned = PlannedTree(
        queue("root", gpu=0), queue("a", "root", gpu=4), queue("b", "root", gpu=4), queue("c", "root")
    )
    assert owed(planned, a=MANY, b=1, c=MANY) == {"root": 8, "a": 6, "b": 1, "c": 1}


def test_what_is_not_lent_is_owed_to_its_owner_alone() -> None:
    """a states 10 and lends 4: 6 are its own. b borrows at most 3 of the 4."""
    planned = PlannedTree(
        queue("root", gpu=0),
        queue("a", "root", limits=(Quota(GPU, 10, lending_limit=4),)),
        queue("b", "root", limits=(Quota(GPU, 0, borrowing_limit=3),)),
        queue("c", "root"),
    )
    assert owed(planned, b=MANY, c=0) == {"root": 3, "a": 0, "b": 3, "c": 0}
    assert owed(planned, a=7, b=MANY, c=MANY) == {"root": 10, "a": 7, "b": 2, "c": 1}
    assert owed(planned, a=MANY, b=MANY) == {"root": 10, "a": 10, "b": 0, "c": 0}


def test_a_hard_limit_holds_for_all_below() -> None:
    """By hand: 30 are shared, 4 are x's alone. The department may have 6: those 4, and 2 for x and y."""
    planned = PlannedTree(
        queue("root", gpu=20),
        queue("dept", "root", limits=(Quota(GPU, 10, hard_limit=6),)),
        queue("x", "dept", limits=(Quota(GPU, 4, lending_limit=0),)),
        queue("y", "dept"),
        queue("other", "root"),
    )
    assert owed(planned, x=MANY, y=MANY, other=MANY) == {"root": 34, "dept": 6, "x": 5, "y": 1, "other": 28}


def test_nobody_limits_a_queue_outside_of_all_quotas() -> None:
    planned = PlannedTree(queue("a", gpu=3), queue("free"))
    assert owed(planned, a=9, free=70) == {"a": 3, "free": 70}


def test_equal_claims_go_by_the_name_of_the_queue() -> None:
    planned = PlannedTree(queue("root", gpu=1000), *(queue(name, "root") for name in ("z", "a10", "a9")))
    assert owed(planned, 1000, z=MANY, a10=MANY, a9=MANY) == {"root": 1000, "a10": 1000, "a9": 0, "z": 0}


def test_a_deep_tree_is_divided_level_by_level() -> None:
    """By hand, 12 of the root by weights 1 and 2: 4 and 8. Below the first a wants 1 of 4; below the second
    x of priority goes first, up to its 5, then y and z by 1 and 2 of the 3 left.
    """
    planned = PlannedTree(
        queue("root", gpu=12),
        queue("left", "root"),
        queue("right", "root", weight=2),
        queue("a", "left"),
        queue("b", "left"),
        queue("x", "right", priority=1),
        queue("y", "right"),
        queue("z", "right", weight=2),
    )
    found = owed(planned, a=1, b=MANY, x=5, y=MANY, z=MANY)
    assert found == {"root": 12, "left": 4, "right": 8, "a": 1, "b": 3, "x": 5, "y": 1, "z": 2}


quotas = st.builds(
    Quota,
    resource=st.just(QuotaResource(GPU)),
    nominal=st.integers(0, 9),
    borrowing_limit=st.none() | st.integers(0, 9),
    hard_limit=st.none() | st.integers(0, 20),
)


@given(
    st.lists(st.tuples(st.integers(0, 20), quotas, st.integers(0, 3), st.integers(0, 12)), max_size=9),
    st.data(),
)
def test_no_more_than_there_is_and_no_less_than_is_wanted(
    told: list[tuple[int, Quota, int, int]], data: st.DataObject
) -> None:
    names = ["root"]
    queues = [queue("root", gpu=5)]
    wanted: dict[str, int] = {}
    lends = data.draw(st.booleans())
    for number, (parent, quota, weight, wants) in enumerate(told):
        name = f"q{number}"
        limit = Quota(
            GPU, quota.nominal, quota.borrowing_limit, None if lends else quota.nominal // 2, quota.hard_limit
        )
        queues.append(queue(name, names[parent % len(names)], weight=weight, limits=(limit,)))
        names.append(name)
        wanted[name] = wants
    inner = {one.parent for one in queues}
    wanted = {name: amount for name, amount in wanted.items() if name not in inner}
    planned = PlannedTree(*queues)
    found = owed(planned, **wanted)
    stated = 5 + sum(quota.nominal for _, quota, _, _ in told)
    assert found["root"] <= min(stated, sum(wanted.values()))
    for name, amount in wanted.items():
        assert 0 <= found[name] <= amount
    unlimited = all(quota.borrowing_limit is None and quota.hard_limit is None for _, quota, _, _ in told)
    if lends and unlimited:
        assert found["root"] == min(stated, sum(wanted.values()))
