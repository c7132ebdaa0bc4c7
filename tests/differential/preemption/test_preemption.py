"""gpufleet and the real kube-scheduler have the same pods evicted, and give the same places.

Where a pod fits without an eviction, which of the nodes it gets is no question here. ``make differential``
runs it with other seeds. What differs is told with all objects.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpufleet.kube.client import Client
from gpufleet.localkube.cluster import LocalCluster
from tests.differential import ours as reading
from tests.differential import server
from tests.differential.cases import Case
from tests.differential.comparison import furnish
from tests.differential.preemption import ours, theirs
from tests.differential.preemption.differences import excuse
from tests.differential.preemption.faults import fault
from tests.differential.preemption.generator import CONCERNS, make_case
from tests.differential.preemption.outcome import Contest

SEED = int(os.environ.get("GPUFLEET_DIFFERENTIAL_SEED", "1"))
CASES = int(os.environ.get("GPUFLEET_DIFFERENTIAL_CASES", "500"))
FIRST = int(os.environ.get("GPUFLEET_DIFFERENTIAL_FIRST", "0"))
TOLD_MAX = 3
ENOUGH_TO_JUDGE_CONCERNS = 500


async def ask_both(cluster: LocalCluster, cases: list[Case]) -> list[Contest]:
    """Put all cases on the server and let both decide, kube-scheduler last: it changes them."""
    async with server.client_of(cluster) as client:
        await furnish(client, cases)
        read = await reading.read(client)
        mine = ours.outcomes(read, cases, now_us(client))
        other = await theirs.outcomes(cluster, client, cases)
        return [Contest(case, mine[case.token], other[case.token]) for case in cases]


def now_us(client: Client) -> int:
    """The moment at which the scheduler looks at the cases, in the engine's time."""
    return int(client.clock.now().timestamp() * 1_000_000)


def test_the_same_pods_are_evicted(tmp_path: Path) -> None:
    cases = [make_case(SEED, number) for number in range(FIRST, FIRST + CASES)]
    with server.control_plane(tmp_path) as cluster:
        contests = asyncio.run(ask_both(cluster, cases))
    print(summary(contests))  # noqa: T201  (shown with -s and with a failure)
    wrong = [(one, fault(one)) for one in contests]
    told = [f"{said}\n{one}" for one, said in wrong if said is not None]
    assert not told, "\n".join([f"{len(told)} cases; the first of them:", *told[:TOLD_MAX]])
    if len(cases) >= ENOUGH_TO_JUDGE_CONCERNS:
        check_concerns(contests)


def check_concerns(contests: Iterable[Contest]) -> None:
    """With every concern both evicted pods, and the same, and both let pods wait."""
    seen = Counter((name, _kind(one)) for one in contests if one.agreed for name in one.case.themes)
    for name in CONCERNS:
        for kind in ("evicted", "waits"):
            assert seen[name, kind], f"nothing was tested: no case of {name} in which {kind} is what both say"


def _kind(contest: Contest) -> str:
    if contest.theirs.victims:
        return "evicted"
    return "fits" if all(contest.theirs.places.values()) else "waits"


def summary(contests: list[Contest]) -> str:
    """What came of the cases, by concern, and by what name they differ."""
    seen = Counter((name, _kind(one)) for one in contests for name in one.case.themes)
    lines = [
        f"  {name}: " + ", ".join(f"{seen[name, kind]} {kind}" for kind in ("evicted", "fits", "waits"))
        for name in CONCERNS
    ]
    same = sum(one.ours == one.theirs for one in contests)
    equal = sum(one.agreed for one in contests) - same
    excused = Counter(excuse(one) for one in contests if not one.agreed)
    head = (
        f"preemption, seed {SEED}: {len(contests)} cases; {same} alike, {equal} of equal cost; "
        f"excused {dict(excused)}"
    )
    return "\n".join((head, *lines))
