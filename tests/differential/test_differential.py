"""gpufleet and the real kube-scheduler leave the same nodes for the same pods in the same clusters.

`make differential` runs it with other seeds. What differs is told with all objects, made as small as it
can be.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufleet.localkube.cluster import LocalCluster
from tests.differential import server, theirs
from tests.differential.cases import Case, path_of
from tests.differential.comparison import Question, compare, furnish, listed
from tests.differential.differences import claims_compete, excuse
from tests.differential.generator import THEMES, make_case
from tests.differential.shrinking import shrunk

SEED = int(os.environ.get("GPUFLEET_DIFFERENTIAL_SEED", "1"))
CASES = int(os.environ.get("GPUFLEET_DIFFERENTIAL_CASES", "500"))
FIRST = int(os.environ.get("GPUFLEET_DIFFERENTIAL_FIRST", "0"))
TOLD_MAX = 3
PICKED_OF = 4
SHRUNK_MAX = 1
ENOUGH_TO_JUDGE_THEMES = 500


@dataclass(frozen=True)
class Outcome:
    """All that was said of all cases."""

    questions: list[Question]
    picks: Mapping[str, str]


async def ask_both(cluster: LocalCluster, cases: list[Case]) -> Outcome:
    """Put all cases on the server and ask."""
    async with server.client_of(cluster) as client:
        await furnish(client, cases)
        asked = await compare(cluster, client, cases)
        return Outcome(asked, await theirs.picks(cluster, client, cases[::PICKED_OF]))


def test_the_same_nodes_are_left(tmp_path: Path) -> None:
    cases = [make_case(SEED, number) for number in range(FIRST, FIRST + CASES)]
    with server.control_plane(tmp_path) as cluster:
        outcome = asyncio.run(ask_both(cluster, cases))
    excused = Counter(excuse(one) for one in outcome.questions if not one.agreed)
    unexcused = [one for one in outcome.questions if not one.agreed and excuse(one) is None]
    print(summary(outcome, excused))  # noqa: T201  (shown with -s and with a failure)
    assert not unexcused, story(unexcused, tmp_path)
    check_picks(outcome)
    if len(cases) >= ENOUGH_TO_JUDGE_THEMES:
        check_themes(outcome.questions)


def story(different: list[Question], folder: Path) -> str:
    """What differs, the first ones as small as they can be made."""
    told = "\n".join(str(one) for one in different[:TOLD_MAX])
    # What takes long and may fail comes after what is known already.
    print(told)  # noqa: T201
    smaller = [
        str(asyncio.run(shrunk(one, folder / f"smaller-{number}")))
        for number, one in enumerate(different[:SHRUNK_MAX])
    ]
    numbers = ", ".join(sorted({one.case.origin for one in different}))
    return f"{len(different)} pods are judged differently ({numbers}); the first, made small:\n" + "\n".join(
        smaller
    )


def check_picks(outcome: Outcome) -> None:
    """What kube-scheduler does when it is let is what was overheard, and feasible for us."""
    by_pod = {path_of(one.pod): one for one in outcome.questions}
    for path, node in outcome.picks.items():
        question = by_pod[path]
        left = question.theirs.feasible
        if not question.agreed:
            # Excused: which volumes it matches changes from try to try, and with them what it is left with.
            left = left | question.ours.feasible
        may_fail = not left or not question.agreed or claims_compete(question)
        assert node in left if node else may_fail, f"picked {node or 'no node'} of {listed(left)}\n{question}"


def check_themes(asked: Iterable[Question]) -> None:
    """Every theme had pods that fit on some nodes but not on all, and pods that fit nowhere."""
    seen = Counter((theme, _kind(one)) for one in asked for theme in one.case.themes if theme in THEMES)
    for theme in THEMES:
        for kind in ("some", "none"):
            if (theme, kind) != ("gates", "some"):
                assert seen[theme, kind], f"nothing was tested: no pod of {theme} fits on {kind} of its nodes"


def _kind(question: Question) -> str:
    left = question.theirs.feasible
    return "none" if not left else "all" if left == question.case.nodes else "some"


def summary(outcome: Outcome, excused: Mapping[str | None, int]) -> str:
    """How many pods of which theme fit where."""
    seen = Counter((theme, _kind(one)) for one in outcome.questions for theme in one.case.themes)
    lines = [
        f"  {theme}: " + ", ".join(f"{seen[theme, kind]} on {kind}" for kind in ("all", "some", "none"))
        for theme in THEMES
    ]
    picked = sum(bool(node) for node in outcome.picks.values())
    head = (
        f"seed {SEED}: {len(outcome.questions)} pods; "
        f"kube-scheduler placed {picked} of {len(outcome.picks)}; excused {dict(excused)}"
    )
    return "\n".join((head, *lines))
