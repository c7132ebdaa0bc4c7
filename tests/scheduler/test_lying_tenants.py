"""Tenants who promise one thing to be let in and say another once they run delay nobody's reservation."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.effort import EFFORT
from tests.scheduler.test_bound_terms import edit, in_queue, say
from tests.scheduler.test_eviction_planner import add_queue, budget, ended, is_leaving, runs
from tests.scheduler.test_overtime import started
from tests.scheduler.test_reservations import change_leaders
from tests.scheduler.world import World, in_world

VISITORS = ("v0", "v1")
OLD_RUNS_S = 1200
"""For so long the work runs that was there first, as it says."""
SLACK_S = 60
"""Within this time whoever must go is told to, and the holder gets its place when they have."""
LIMIT_S = 660
"""No later than this after its binding a pod counts as started, and a round is made."""


class Lie(NamedTuple):
    """What a tenant does some time after its pods run: to which of them, and in which way."""

    after_s: int
    visitor: str
    how: str


LIES: dict[str, dict[str, str | None]] = {
    "longer": {"run_time": "30h"},
    "endless": {"run_time": None},
    "nonsense": {"run_time": "soon"},
    "not interruptible": {"interruptible": None},
    "denied": {"interruptible": "false", "run_time": "30h"},
    "in a gang": {"gang": "g", "gang_min_members": "9"},
}
STATUS = ("a later start", "an earlier start")
OTHERS = ("another queue", "no queue", "a budget", "another leader", *STATUS)
opening = st.sampled_from([{"run_time": "5m"}, {"run_time": "10m"}, {"interruptible": "true"}])
lie = st.builds(Lie, st.integers(0, 300), st.sampled_from(VISITORS), st.sampled_from([*LIES, *OTHERS]))


@settings(max_examples=6 * EFFORT, deadline=None)
@given(openings=st.tuples(opening, opening), lies=st.lists(lie, max_size=6, unique=True))
def test_a_holder_starts_when_the_work_that_ran_before_it_has_ended(
    openings: tuple[dict[str, str], dict[str, str]], lies: list[Lie]
) -> None:
    async def story(world: World) -> None:
        await visitors_before_a_reservation(world, openings)
        began_s = world.clock.monotonic_s()
        for one in sorted(lies):
            await world.settle(max(0.0, began_s + one.after_s - world.clock.monotonic_s()))
            await tell(world, one)
        late_s = LIMIT_S if any(one.how == "a later start" for one in lies) else 0
        await world.settle(began_s + OLD_RUNS_S + late_s - world.clock.monotonic_s())
        world.finish("old")
        await world.settle(SLACK_S)
        for name in VISITORS:
            assert is_leaving(world, name), f"{name} stays"
            ended(world, name)
        await world.settle(SLACK_S)
        assert world.node_of("large") == "n"

    in_world(story)


async def visitors_before_a_reservation(world: World, openings: tuple[dict[str, str], ...]) -> None:
    """Of three GPUs one is in use, work for all of them waits, and visitors have the others meanwhile."""
    add_queue(world, "team", reserveAfter="0s")
    add_queue(world, "elsewhere")
    world.node("n", gpus=3)
    world.pod("old", labels=in_queue("team"), annotations={"gpufleet.io/run-time": f"{OLD_RUNS_S + 60}s"})
    await world.settle(5)
    started(world, "old")
    world.pod("large", gpus=3, labels=in_queue("team"))
    await world.settle(5)
    for name, words in zip(VISITORS, openings, strict=True):
        ours = {f"gpufleet.io/{key.replace('_', '-')}": value for key, value in words.items()}
        world.pod(name, labels={**in_queue("team"), "app": name}, annotations=ours)
    await world.settle(10)
    for name in VISITORS:
        assert world.node_of(name) == "n"
        runs(world, name)
        started(world, name)


async def tell(world: World, one: Lie) -> None:
    """A tenant lies once."""
    match one.how:
        case "another queue":
            edit(world, one.visitor, labels=in_queue("elsewhere"))
        case "no queue":
            edit(world, one.visitor, labels={"gpufleet.io/queue": None})
        case "a budget":
            budget(world, f"keep-{one.visitor}-{one.after_s}", 0, app=one.visitor)
        case "another leader":
            await change_leaders(world)
        case "a later start" | "an earlier start":
            year = "2999" if one.how == "a later start" else "2001"
            status = {"status": {"phase": "Running", "startTime": f"{year}-01-01T00:00:00Z"}}
            path = f"/api/v1/namespaces/default/pods/{one.visitor}/status"
            assert world.request("PATCH", path, status) == 200
        case _:
            say(world, one.visitor, {}, LIES[one.how])
