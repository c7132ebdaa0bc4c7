"""A large gang starts in bounded time under any stream of small work."""

import heapq
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine.instruction import AnyInstruction
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, shape
from tests.engine.reservations.holders import holders, running, team

NODES = 3
GPUS = 2


class Small(NamedTuple):
    """A pod of one GPU that really runs for so long, and says so or not."""

    runs_s: int
    says_so: bool


small = st.builds(Small, st.integers(1, 40), st.booleans())


@settings(max_examples=60 * EFFORT)
@given(
    first=st.lists(small, min_size=NODES * GPUS, max_size=NODES * GPUS),
    stream=st.lists(st.lists(small, max_size=4), min_size=80, max_size=80),
    size=st.integers(2, NODES * GPUS),
)
def test_it_starts_when_the_work_that_ran_at_its_reservation_has_ended(
    first: list[Small], stream: list[list[Small]], size: int
) -> None:
    story = Story()
    story.queues(team())
    story.nodes(*(node(f"n{number}", GPUS) for number in range(NODES)))
    runs_s: dict[str, int] = {}
    ends: list[tuple[int, str]] = []

    def arrive(name: str, one: Small, second: int) -> None:
        runs_s[name] = one.runs_s
        needs = (
            running(name, shape(1), for_s=one.runs_s) if one.says_so else pod(name, shape(1), queue="team")
        )
        start(story.arrive(needs), second)

    def start(said: list[AnyInstruction], second: int) -> None:
        for uid in placed(said):
            if uid in runs_s:
                heapq.heappush(ends, (second + runs_s[uid], uid))

    for number, one in enumerate(first):
        arrive(f"first-{number}", one, 0)
    story.gangs(gang("g", size, queue="team"))
    story.arrive(*members("g", size, shape(1)))
    assert holders(story) == ["g"]
    latest_s = max(one.runs_s for one in first)
    for second in range(1, latest_s + 1):
        start(story.wait_s(1), second)
        while ends and ends[0][0] <= second:
            start(story.depart(heapq.heappop(ends)[1]), second)
        for number, one in enumerate(stream[second]):
            arrive(f"small-{second}-{number}", one, second)
    assert {f"g-{number}" for number in range(size)} <= set(story.binds)
