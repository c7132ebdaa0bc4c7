"""Whatever runs on a fleet: a plan moves work whole, each at most once, and never where there is no room."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.drain.plan import DrainPlan, Way
from tests.drain.drain_builder import NOW_US, Fleet

GPUS = 4
Works = list[tuple[list[int], int, int | None]]


@st.composite
def works(draw: st.DrawFn) -> tuple[int, Works]:
    """So many nodes, and work on them: nodes of its pods, GPUs of each, seconds until its end."""
    nodes = draw(st.integers(2, 5))
    free = [GPUS] * nodes
    found: Works = []
    for _ in range(draw(st.integers(0, 6))):
        gpus = draw(st.sampled_from([1, 2, 4]))
        open_nodes = [number for number in range(nodes) if free[number] >= gpus]
        if not open_nodes:
            continue
        on = sorted(draw(st.sets(st.sampled_from(open_nodes), min_size=1, max_size=3)))
        for number in on:
            free[number] -= gpus
        found.append((on, gpus, draw(st.sampled_from([None, 600, 7200]))))
    return nodes, found


def fleet_of(nodes: int, found: Works) -> Fleet:
    fleet = Fleet(nodes, GPUS)
    for number, (on, gpus, ends_s) in enumerate(found):
        ends_at_us = None if ends_s is None else NOW_US + ends_s * 1_000_000
        fleet.run(f"w{number}", *on, gpus=gpus, ends_at_us=ends_at_us)
    return fleet


def check_moves(fleet: Fleet, plan: DrainPlan) -> None:
    """Follow the plan with a count of GPUs by node."""
    waves = {one.node: (one.closed_at_s, one.wave) for one in plan.nodes}
    pods = {
        one.name: {str(pod.uid): (str(pod.node), pod.gpu_milli) for pod in one.pods} for one in fleet.work
    }
    ends_s = {
        one.name: (one.ends_at_us - NOW_US) / 1_000_000 for one in fleet.work if one.ends_at_us is not None
    }
    for planned in plan.work:
        if planned.way is not Way.MOVES:
            continue
        assert planned.at_s is not None
        # What moved goes on for longer than was known; what ended by then has left.
        ends_s.pop(planned.name, None)
        for name in [name for name, end_s in ends_s.items() if end_s <= planned.at_s]:
            del pods[name], ends_s[name]
        mine = pods[planned.name]
        assert {move.uid for move in planned.moves} == set(mine)
        closed = max(waves[move.source] for move in planned.moves if waves[move.source][0] <= planned.at_s)
        for move in planned.moves:
            assert move.source == mine[move.uid][0]
            assert waves[move.target][1] != closed[1]
            mine[move.uid] = (move.target, mine[move.uid][1])
        used: Counter[str] = Counter()
        for node, milli in (place for one in pods.values() for place in one.values()):
            used[node] += milli
        assert max(used.values()) <= GPUS * 1000


@settings(max_examples=60, deadline=None)
@given(works(), st.integers(1, 3))
def test_a_rollout_over_any_fleet(drawn: tuple[int, Works], at_once: int) -> None:
    nodes, found = drawn
    fleet = fleet_of(nodes, found)
    plan = fleet.plan(nodes_at_once=at_once, away_s=600)
    assert sorted(one.node for one in plan.nodes) == fleet.names
    moved = Counter(one.name for one in plan.work if one.way is Way.MOVES)
    to_later = Counter(one.name for one in plan.work if one.again)
    assert all(count <= 1 + to_later[name] for name, count in moved.items())
    check_moves(fleet, plan)
