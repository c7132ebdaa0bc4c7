"""Dominant shares: published examples, and an order that is exact."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.arrays import layout
from gpufleet.engine.queueing.shares import NOT_LIMITED, QueueShares, RawShare, Share, dominant
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, Quota
from tests.engine.queueing.tree_builder import PlannedTree, queue

# Kueue, pkg/cache/fair_sharing_test.go, TestDominantResourceShare: (CPU in milli, GPUs) borrowed, the
# same of what the cohort has, weight in thousandths, and the share that it wants, in thousandths.
KUEUE = {
    "usage below nominal": ((-1000, -3), (10_000, 10), 1000, 0),
    "usage above nominal": ((1000, 2), (10_000, 10), 1000, 200),
    "one resource above nominal": ((1000, -2), (10_000, 10), 1000, 100),
    "usage with workload above nominal": ((3000, 1), (10_000, 10), 1000, 300),
    "above nominal with integer weight": ((0, 2), (0, 10), 2000, 100),
    "above nominal with decimal weight": ((0, 2), (0, 10), 500, 400),
}


@pytest.mark.parametrize("case", KUEUE)
def test_kueues_examples(case: str) -> None:
    borrowed, to_share, weight_milli, wanted = KUEUE[case]
    assert dominant(borrowed, to_share, weight_milli).share == (False, Fraction(wanted, 1000))


def test_kueues_queue_of_weight_zero_has_the_largest_share() -> None:
    """The same table, "above nominal with zero weight": math.MaxInt."""
    assert dominant((0, 2), (0, 15), 0).share > dominant((10**12, 10**12), (1, 1), 1).share


def test_the_dominant_shares_of_the_paper() -> None:
    """Ghodsi et al. 2011, section 4.1: of 9 CPUs and 18 GB, A with three tasks <1, 4> has 2/3 of the
    memory, B with two tasks <3, 1> 2/3 of the CPUs.
    """
    assert dominant((3, 12), (9, 18), 1000).share == (False, Fraction(2, 3))
    assert dominant((6, 2), (9, 18), 1000).share == (False, Fraction(2, 3))


def test_what_nobody_limits_gives_no_share_and_what_nobody_has_an_endless_one() -> None:
    assert dominant((5, 1), (NOT_LIMITED, 4), 1000).share == (False, Fraction(1, 4))
    assert dominant((5, 1), (0, 4), 1000).share == (True, Fraction(5))
    assert dominant((0, 1), (0, 4), 1000).share == (False, Fraction(1, 4))


def test_the_dominant_resource_is_named() -> None:
    assert dominant((1, 3, 2), (10, 10, 10), 1000).column == 1
    assert dominant((1, 3, 2), (10, 10, 0), 1000).column == 2
    assert dominant((0, -3), (10, 10), 1000).column < 0


def test_queues_of_weight_zero_are_compared_among_each_other() -> None:
    assert dominant((1,), (4,), 0).share < dominant((2,), (4,), 0).share


def test_a_part_of_a_unit_counts_for_its_part() -> None:
    """Half a GPU of four, said in 1/65,536."""
    assert dominant((1 << 15,), (4,), 1000, 1 << 16).share == (False, Fraction(1, 8))


def test_shares_that_no_float_tells_apart_are_told_apart() -> None:
    one, other = (10**18 - 1, 10**18), (10**18, 10**18 + 1)
    less, more = (dominant((amount,), (whole,), 1000) for amount, whole in (one, other))
    assert one[0] / one[1] == other[0] / other[1], "for floats they are the same"
    assert less.share < more.share
    assert less.order_key < more.order_key


amounts = st.integers(0, 2**70)
denominators = st.integers(1, 2**150)
raw_shares = st.builds(RawShare, st.booleans(), amounts, denominators)


@given(raw_shares, raw_shares, st.integers(1, 2**20))
def test_the_order_of_the_keys_is_that_of_the_fractions(one: RawShare, other: RawShare, by: int) -> None:
    def by_cross_multiplication(left: RawShare, right: RawShare) -> int:
        if left.endless != right.endless:
            return 1 if left.endless else -1
        crossed = left.numerator * right.denominator - right.numerator * left.denominator
        return (crossed > 0) - (crossed < 0)

    near = RawShare(one.endless, one.numerator * by + 1, one.denominator * by)
    same = RawShare(one.endless, one.numerator * by, one.denominator * by)
    for left, right in ((one, other), (one, near), (one, same)):
        expected = by_cross_multiplication(left, right)
        assert (left.order_key > right.order_key) - (left.order_key < right.order_key) == expected
        assert (left.share > right.share) - (left.share < right.share) == expected


@given(
    st.lists(st.tuples(st.integers(-5, 50), st.integers(1, 50)), min_size=1, max_size=5), st.integers(1, 5000)
)
def test_the_dominant_share_is_the_largest_one(amounts: list[tuple[int, int]], weight_milli: int) -> None:
    borrowed, to_share = [amount for amount, _ in amounts], [whole for _, whole in amounts]
    each = [Fraction(max(0, amount), whole) * 1000 / weight_milli for amount, whole in amounts]
    assert dominant(borrowed, to_share, weight_milli).share == Share(False, max(each))


def shares(planned: PlannedTree, *names: str) -> list[Share]:
    found = QueueShares(planned.store, planned.tree)
    return [found.share(planned.row(name)) for name in names]


def test_a_queue_is_measured_by_what_its_parent_has_to_share() -> None:
    """By hand: the root has 40 of its own and 10 from each department; x uses 8, 5 beyond its 3, of those
    that come to its department at most: all 60. Its department uses 10 and so borrows nothing.
    """
    planned = (
        PlannedTree(
            queue("root", gpu=40),
            queue("dept", "root", gpu=7),
            queue("x", "dept", gpu=3, weight=2),
            queue("y", "dept"),
            queue("other", "root", gpu=10),
        )
        .use("x", gpu=8)
        .use("y", gpu=2)
    )
    assert shares(planned, "x", "y", "dept", "other") == [
        (False, Fraction(5, 60) / 2),
        (False, Fraction(2, 60)),
        (False, Fraction(0)),
        (False, Fraction(0)),
    ]


def test_a_borrowing_limit_and_what_is_not_lent_bound_what_a_parent_has() -> None:
    """The department may have its 6 and borrow 4; x keeps 2 of its 3 to itself, which nobody else counts."""
    planned = (
        PlannedTree(
            queue("root", gpu=40),
            queue("dept", "root", limits=(Quota(GPU, 5, borrowing_limit=4),)),
            queue("x", "dept", limits=(Quota(GPU, 3, lending_limit=1),)),
            queue("y", "dept"),
        )
        .use("x", gpu=2)
        .use("y", gpu=5)
    )
    assert shares(planned, "x", "y", "dept") == [
        (False, Fraction(0)),
        (False, Fraction(5, 10)),
        (False, Fraction(0)),
    ]
    planned.use("y", gpu=2)
    assert shares(planned, "dept") == [(False, Fraction(1, 46))]


def test_queues_are_compared_by_the_branches_in_which_they_differ() -> None:
    planned = (
        PlannedTree(
            queue("root", gpu=20),
            queue("left", "root"),
            queue("right", "root"),
            queue("a", "left"),
            queue("b", "left"),
            queue("c", "right"),
            queue("alone", gpu=5),
        )
        .use("a", gpu=1)
        .use("b", gpu=6)
        .use("c", gpu=7)
    )
    found = QueueShares(planned.store, planned.tree)

    def compare(one: str, other: str) -> int | None:
        return found.compare(planned.row(one), planned.row(other))

    assert compare("a", "b") == -1
    assert compare("b", "c") == 0, "7 of each branch"
    planned.use("a", gpu=1)
    assert (compare("a", "c"), compare("c", "b")) == (1, -1), "8 against 7"
    assert compare("a", "a") is None
    assert compare("a", "left") is None, "one is above the other"
    assert compare("a", "alone") is None, "nothing is above both"


def test_what_a_parent_has_to_share_follows_the_tree() -> None:
    planned = PlannedTree(queue("root", gpu=10), queue("x", "root")).use("x", gpu=5)
    found = QueueShares(planned.store, planned.tree)
    assert found.share(planned.row("x")) == (False, Fraction(1, 2))
    planned.tree.set(queue("root", gpu=20))
    planned.tree.settle()
    assert found.share(planned.row("x")) == (False, Fraction(1, 4))


def test_what_nobody_limits_is_no_share() -> None:
    planned = PlannedTree(queue("a", gpu=3), queue("free")).use("free", gpu=100)
    assert shares(planned, "free") == [(False, Fraction(0))]


@given(st.lists(st.integers(-1, 8), min_size=1, max_size=9))
def test_the_sides_of_all_queues_at_once_are_those_of_each(parents: list[int]) -> None:
    """A parent is a queue stated before, or nobody."""
    above = [None if parent < 0 else f"q{parent % number}" for number, parent in enumerate(parents, 1)]
    above = [None if name == f"q{number}" else name for number, name in enumerate(above)]
    planned = PlannedTree(*(queue(f"q{number}", name) for number, name in enumerate(above)))
    planned.tree.hold(QueueName("undescribed"))
    found = QueueShares(planned.store, planned.tree)
    for one in planned.tree.row_by_name.values():
        pairs = {other: found.siblings(one, other) for other in planned.tree.row_by_name.values()}
        theirs = {other: layout.NOT_SET if pair is None else pair[1] for other, pair in pairs.items()}
        assert theirs == {other: found.sides(one)[other] for other in theirs}


def test_the_sides_are_those_of_the_tree_as_it_is() -> None:
    planned = PlannedTree(queue("root"), queue("a", "root"), queue("dept", "root"), queue("b", "dept"))
    found = QueueShares(planned.store, planned.tree)
    a, b = planned.row("a"), planned.row("b")
    assert found.sides(a)[b] == planned.row("dept")
    planned.tree.set(queue("b", "root"))
    planned.tree.settle()
    assert found.sides(a)[b] == b
    planned.tree.remove(QueueName("b"))
    planned.tree.settle()
    assert found.sides(a)[b] == layout.NOT_SET


def test_the_order_of_a_share_follows_what_is_used() -> None:
    planned = PlannedTree(queue("root", gpu=10), queue("a", "root")).use("a", gpu=2)
    found = QueueShares(planned.store, planned.tree)
    for more in (0, 3, -4):
        planned.use("a", gpu=more)
        assert found.order_key(planned.row("a")) == found.raw(planned.row("a")).order_key
    planned.tree.set(queue("a", "root", weight=3))
    planned.tree.settle()
    assert found.order_key(planned.row("a")) == found.raw(planned.row("a")).order_key
