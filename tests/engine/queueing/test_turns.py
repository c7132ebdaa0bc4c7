"""Whose turn it is: the four parts of the right to it, and what it leads to."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.engine.queueing.entitlements import Level, top_down
from gpufleet.engine.queueing.line import Head
from gpufleet.engine.queueing.shares import QueueShares
from gpufleet.engine.queueing.turns import Contestant
from gpufleet.model.queue import GPU, Quota
from tests.engine.queueing.bout import Bout
from tests.engine.queueing.tree_builder import queue

HOUR_US = 3_600_000_000


def test_the_example_of_dominant_resource_fairness() -> None:
    """Ghodsi et al. 2011, section 4.1 and table 1: 9 CPUs and 18 GB; tasks of A need <1, 4>, of B <3, 1>.
    A gets three and B two, and nothing more fits.
    """
    bout = Bout(queue("all", cpu=9, memory=18), queue("A", "all"), queue("B", "all"))
    bout.work("A", 20, cpu=1, memory=4).work("B", 20, cpu=3, memory=1)
    assert bout.serve() == ["A", "B", "A", "B", "A"]


def test_weights_shift_the_dominant_shares() -> None:
    """The same with weight 2 for A, by hand: A, B, A, A bring both to 1/3 (12/18 halved, 3/9); the older
    work is A's; then 7 of 9 CPUs and 17 of 18 GB are taken, and neither fits.
    """
    bout = Bout(queue("all", cpu=9, memory=18), queue("A", "all", weight=2), queue("B", "all"))
    bout.work("A", 20, cpu=1, memory=4).work("B", 20, cpu=3, memory=1)
    assert Counter(bout.serve()) == {"A": 4, "B": 1}


def test_a_head_within_what_is_owed_goes_before_priority_share_and_age() -> None:
    bout = Bout(
        queue("root", gpu=4),
        queue("owner", "root", gpu=2),
        queue("vip", "root", priority=9),
    )
    bout.work("owner", 4, created_at_us=50, gpu=1).work("vip", 6, gpu=1)
    assert bout.serve() == ["owner", "owner", "vip", "vip", "vip", "vip"]


def test_a_head_too_large_for_what_is_owed_counts_as_borrowing() -> None:
    bout = Bout(queue("root", gpu=6), queue("a", "root", gpu=2), queue("b", "root", gpu=2))
    bout.work("a", 1, gpu=3).work("b", 1, created_at_us=9, gpu=2)
    assert bout.serve() == ["b", "a"]


def test_higher_priority_goes_before_the_smaller_share() -> None:
    bout = Bout(queue("root", gpu=5), queue("high", "root", priority=1), queue("low", "root"))
    bout.work("low", 9, gpu=1).work("high", 3, created_at_us=9, gpu=1)
    assert bout.serve() == ["high"] * 3 + ["low"] * 2


def test_equal_shares_go_by_the_heads_priority_then_age() -> None:
    bout = Bout(queue("root", gpu=9), *(queue(name, "root") for name in "abc"))
    bout.work("a", 1, created_at_us=2, gpu=1).work("b", 1, created_at_us=1, gpu=1)
    bout.work("c", 1, created_at_us=3, priority=1, gpu=1)
    assert bout.serve() == ["c", "b", "a"]


def test_of_equal_shares_the_larger_weight_borrows_first() -> None:
    """Kept to what is borrowed: within the nominal amounts the older work goes first whatever the weights."""
    bout = Bout(
        queue("root", gpu=1),
        queue("light", "root", gpu=1),
        queue("heavy", "root", gpu=1, weight=3),
    )
    bout.work("light", 9, gpu=1).work("heavy", 9, created_at_us=9, gpu=1)
    assert bout.serve() == ["light", "heavy", "heavy"]


def test_of_equal_shares_a_queue_that_lacks_something_of_its_own_borrows_before_a_larger_weight() -> None:
    """Two of the three that are left go to ``lacking``, which has one of its two; ``full`` has its one."""
    bout = Bout(
        queue("root", gpu=2),
        queue("lacking", "root", gpu=2),
        queue("full", "root", gpu=1, weight=3),
    )
    bout.work("lacking", 1, priority=1, gpu=1).work("full", 1, priority=1, gpu=1)
    bout.work("lacking", 1, created_at_us=9, gpu=2).work("full", 1, gpu=2)
    assert bout.serve() == ["lacking", "full", "lacking"]


def test_weight_zero_gets_what_nobody_else_wants() -> None:
    bout = Bout(
        queue("root", gpu=5),
        queue("scavenger", "root", gpu=1, weight=0, priority=9),
        queue("team", "root"),
    )
    bout.work("scavenger", 9, gpu=1).work("team", 3, created_at_us=5, gpu=1)
    assert bout.serve() == ["scavenger", "team", "team", "team", "scavenger", "scavenger"]


def test_a_tree_of_three_levels() -> None:
    """By hand, 12 GPUs by 1:2 at the top: 4 and 8. Below the left a and b in turn; below the right, c has
    priority and wants 2, then d and e by 1:2 share 6.
    """
    bout = Bout(
        queue("root", gpu=12),
        queue("left", "root"),
        queue("right", "root", weight=2),
        queue("a", "left"),
        queue("b", "left"),
        queue("c", "right", priority=1),
        queue("d", "right"),
        queue("e", "right", weight=2),
    )
    for name in "abde":
        bout.work(name, 50, gpu=1)
    bout.work("c", 2, created_at_us=99, gpu=1)
    served = bout.serve()
    assert Counter(served) == {"a": 2, "b": 2, "c": 2, "d": 2, "e": 4}
    assert Counter(served[:6]) == {"a": 1, "b": 1, "c": 2, "e": 1, "d": 1}


def test_a_strict_queue_stops_behind_a_head_that_cannot_run() -> None:
    bout = Bout(queue("root", gpu=4), queue("s", "root", strict=True), queue("f", "root"))
    bout.work("s", 1, gpu=9).work("s", 1, created_at_us=1, gpu=1)
    bout.work("f", 1, gpu=9).work("f", 1, created_at_us=1, gpu=1)
    assert bout.serve() == ["f"]


@pytest.mark.parametrize("gang", [1, 4])
def test_backlogged_queues_end_within_one_workload_of_their_weights(gang: int) -> None:
    """Weights 1:2:3 of 120 GPUs: 20, 40 and 60."""
    bout = Bout(
        queue("root", gpu=120), *(queue(name, "root", weight=int(name[1])) for name in ("q1", "q2", "q3"))
    )
    for name in ("q1", "q2", "q3"):
        bout.work(name, 200, gpu=gang)
    got = Counter(bout.serve())
    assert {name: abs(got[name] * gang - 20 * int(name[1])) < gang for name in got} == dict.fromkeys(
        got, True
    )
    shares = QueueShares(bout.store, bout.tree)
    ratios = [shares.share(bout.row(name)).ratio for name in got]
    jain = sum(ratios) ** 2 / (len(ratios) * sum(ratio * ratio for ratio in ratios))
    assert jain > Fraction(99, 100)


def test_a_flood_in_one_queue_keeps_nobody_from_what_is_owed() -> None:
    bout = Bout(queue("root", gpu=10), queue("flood", "root", priority=5), queue("owner", "root", gpu=4))
    bout.work("flood", 10_000, priority=9, gpu=1)
    assert Counter(bout.serve()) == {"flood": 14}
    bout.work("owner", 8, created_at_us=10**9, gpu=1)
    bout.waiting.wake(next(iter(bout.waiting.lines)))
    for freed in range(1, 8):
        bout.give("flood", {GPU: -1})
        assert bout.serve() == (["owner"] if freed <= 4 else ["flood"])
        for line in list(bout.waiting.lines.values()):
            if line.parked:
                bout.waiting.wake(line.key)


def test_a_deep_queue_is_served_in_one_cycle() -> None:
    """No "one head a queue and cycle": all 500 of the deep one among ten shallow ones, in one go."""
    bout = Bout(queue("root", gpu=600), queue("deep", "root"), *(queue(f"q{n}", "root") for n in range(10)))
    bout.work("deep", 500, gpu=1)
    for number in range(10):
        bout.work(f"q{number}", 3, gpu=1)
    assert Counter(bout.serve())["deep"] == 500


class Counted(Bout):
    """Counts the keys that are made."""

    def __init__(self, *told: object, **pool: int) -> None:
        super().__init__(*told, **pool)  # type: ignore[arg-type]
        self.keys = 0
        made = self.turns._key

        def counting(row: int, contestant: Contestant) -> object:
            self.keys += 1
            return made(row, contestant)

        self.turns._key = counting  # type: ignore[method-assign,assignment]


def test_a_decision_looks_at_one_path_however_many_queues_there_are() -> None:
    departments = [queue(f"d{n}", "root") for n in range(20)]
    teams = [queue(f"d{n}t{m}", f"d{n}") for n in range(20) for m in range(20)]
    bout = Counted(queue("root", gpu=10_000), *departments, *teams)
    for team in teams:
        bout.work(team.name, 10, gpu=1)
    bout.turns.begin(0)
    begun = bout.keys
    assert begun == 400 + 20 + 1
    assert len(bout.serve(1000)) == 1000
    assert bout.keys - 2 * begun <= 3 * 1000, "three keys a decision"


def test_the_past_counts_as_much_as_the_present() -> None:
    """KAI, docs/timeaware: 16 GPUs, two queues without quota and of equal weight, each with jobs of 16 GPUs.
    They take turns, whoever has the older work.
    """
    bout = Bout(
        queue("root", gpu=16),
        queue("a", "root", half_life_us=HOUR_US),
        queue("b", "root", half_life_us=HOUR_US),
    )
    bout.work("a", 10, gpu=16).work("b", 10, created_at_us=99, gpu=16)
    order = []
    for _ in range(6):
        order += bout.serve(1)
        bout.at_us += HOUR_US // 4
        bout.past_use.follow(bout.at_us)
        bout.give(order[-1], {GPU: -16})
        bout.past_use.follow(bout.at_us)
    assert order == ["a", "b", "a", "b", "a", "b"]


def test_without_a_half_life_the_older_work_goes_first_each_time() -> None:
    bout = Bout(queue("root", gpu=16), queue("a", "root"), queue("b", "root"))
    bout.work("a", 10, gpu=16).work("b", 10, created_at_us=99, gpu=16)
    order = []
    for _ in range(4):
        order += bout.serve(1)
        bout.give(order[-1], {GPU: -16})
    assert order == ["a"] * 4


def test_a_rich_past_does_not_leave_all_to_the_newcomer() -> None:
    """By hand: a used 8 GPUs for long and has none now, b is new. Their means are equal, (a + 8) / 2 =
    (b + 0) / 2, when of the 12 a has 2 and b 10.
    """
    bout = Bout(
        queue("root", gpu=12),
        queue("a", "root", half_life_us=HOUR_US),
        queue("b", "root", half_life_us=HOUR_US),
    )
    bout.give("a", {GPU: 8})
    bout.past_use.follow(0)
    bout.at_us = 100 * HOUR_US
    bout.give("a", {GPU: -8})
    bout.past_use.follow(bout.at_us)
    bout.work("a", 20, gpu=1).work("b", 20, created_at_us=9, gpu=1)
    assert Counter(bout.serve()) == {"a": 2, "b": 10}


@st.composite
def bouts(draw: st.DrawFn) -> Bout:
    """A random tree with work in its leaves."""
    names, queues = ["root"], [queue("root", gpu=draw(st.integers(0, 40)))]
    for number in range(draw(st.integers(1, 8))):
        parent = draw(st.sampled_from(names))
        limit = Quota(GPU, draw(st.integers(0, 5)), draw(st.none() | st.integers(0, 5)))
        priority, weight = draw(st.integers(0, 1)), draw(st.integers(0, 3))
        names.append(f"q{number}")
        queues.append(queue(names[-1], parent, priority=priority, weight=weight, limits=(limit,)))
    inner = {one.parent for one in queues}
    bout = Bout(*queues, gpu=draw(st.integers(0, 60)))
    for name in names:
        if name not in inner:
            for _ in range(draw(st.integers(0, 3))):
                kind = {"priority": draw(st.integers(0, 1)), "created_at_us": draw(st.integers(0, 3))}
                bout.work(name, draw(st.integers(1, 5)), gpu=draw(st.integers(1, 4)), **kind)
    return bout


@given(bouts())
def test_the_tournament_takes_whom_a_look_at_the_whole_tree_would_take(bout: Bout) -> None:
    """Against a walk that makes every key anew for every decision."""

    def best(row: int) -> tuple[tuple[object, ...], int, Contestant] | None:
        found = [best(child) for child in bout.tree.children(row)]
        below = min((one for one in found if one is not None), key=lambda one: one[0], default=None)
        line = bout.waiting.first(bout.tree.name_at(row))
        if line is not None:
            leaf, contestant = row, Contestant(Head(*line.head()), bout.turns._ask(line))
        elif below is not None:
            leaf, contestant = below[1], below[2]
        else:
            return None
        return bout.turns._key(row, contestant), leaf, contestant

    root = bout.row("root")
    bout.turns.begin(0)
    while True:
        expected = best(root)
        line = bout.turns.take()
        if line is None:
            assert expected is None
            break
        assert expected is not None
        assert bout.row(line.key.queue) == expected[1]
        if bout._start(line):
            bout.waiting.advance(line)
        else:
            bout.waiting.park(line)
        bout.turns.offer(line.key.queue)


@st.composite
def trees_with_demand(draw: st.DrawFn) -> tuple[Bout, dict[str, int], int]:
    """A tree whose root limits all, work of one GPU each in its leaves, and the depth."""
    depths, queues = {"root": 1}, [queue("root", gpu=draw(st.integers(0, 60)))]
    for number in range(draw(st.integers(1, 9))):
        parent, name = draw(st.sampled_from(sorted(depths))), f"q{number}"
        limit = Quota(GPU, draw(st.sampled_from((0, 0, 3, 8))), draw(st.none() | st.integers(0, 20)))
        priority, weight = draw(st.sampled_from((0, 0, 1))), draw(st.sampled_from((0, 1, 1, 2, 5)))
        depths[name] = depths[parent] + 1
        queues.append(queue(name, parent, priority=priority, weight=weight, limits=(limit,)))
    inner = {one.parent for one in queues}
    wanted = {name: draw(st.integers(0, 30)) for name in depths if name not in inner}
    bout = Bout(*queues)
    for name, amount in wanted.items():
        bout.work(name, amount, gpu=1)
    return bout, wanted, max(depths.values())


@given(trees_with_demand())
def test_turns_lead_to_what_the_queues_are_owed(told: tuple[Bout, dict[str, int], int]) -> None:
    """Serving one GPU at a time comes to what water-filling works out at once, up to a GPU a level."""
    bout, wanted, depth = told
    by_row = {bout.row(name): amount for name, amount in wanted.items()}
    owed = Level(bout.tree, bout.column(GPU), by_row, 1).owed_by_row(top_down(bout.tree))
    got = Counter(bout.serve())
    assert got.total() == owed[bout.row("root")]
    for name in wanted:
        assert abs(got[name] - owed[bout.row(name)]) <= depth, name
