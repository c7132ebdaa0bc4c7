"""The live scheduler against a real API server, one fault after the other; every promise holds after each.

`make chaos` runs this and ``test_leader``; FAULT and SEED choose some faults and another seed, STRETCH lets
each act longer.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpufleet.simulation import cluster_recipe
from tests.chaos.catalogue import BY_NAME, CATALOGUE, Row, make_faults
from tests.chaos.stage import Setting, Stage, play_on_stage
from tests.chaos.traffic import RECIPE

CHOSEN = [
    BY_NAME[name] for name in os.environ.get("GPUFLEET_CHAOS_FAULTS", "").split(",") if name
] or CATALOGUE
SEED = int(os.environ.get("GPUFLEET_CHAOS_SEED") or "1")
STRETCH = float(os.environ.get("GPUFLEET_CHAOS_STRETCH") or "1")
"""By how much longer than in CI each fault acts."""


STORM = (
    "watch-cut",
    "too-many-requests",
    "bind-unknown-applied",
    "writes-twice",
    "answer-cut",
    "kill-after-write-k",
)
"""What comes together at the end."""


def test_every_promise_holds_under_every_fault(tmp_path: Path) -> None:
    faults = make_faults(CHOSEN, SEED)
    broken: list[str] = []

    async def endure(stage: Stage, rows: Sequence[Row]) -> None:
        names = " and ".join(row.name for row in rows)
        chosen = [faults[row.name] for row in rows]
        await stage.endure(chosen, max(row.lasts_s for row in rows) * STRETCH)
        wrong = await stage.unrest()
        wrong += [f"{fault.name} never acted, so it proves nothing" for fault in chosen if not fault.acted]
        for words in wrong:
            stage.tell(words)
            broken.append(f"{names}, seed {SEED}: {words}")

    async def play(stage: Stage) -> None:
        await stage.traffic.pod(cluster_recipe.pod("too-large", stage.setting.gpus_per_node + 1, RECIPE))
        storm = [row for row in CHOSEN if row.name in STORM]
        for rows in (*([row] for row in CHOSEN), *([storm] if len(storm) > 1 else ())):
            await endure(stage, rows)
            if broken:
                # What comes after a broken promise would be blamed on the next fault.
                break

    setting = Setting(flags=("--silent-watch=5",))
    play_on_stage(tmp_path, SEED, tuple(faults.values()), play, setting)
    assert not broken, "\n".join(broken)


def test_every_fault_is_in_the_document() -> None:
    document = Path(__file__).parents[2] / "docs" / "faults-live.md"
    described = set(re.findall(r"^\| `([a-z0-9-]+)` \|", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert described == set(BY_NAME)
