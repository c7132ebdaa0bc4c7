"""A run of hostile tenants on the stage: a short one, or as long as one likes with faults beside them.

    GPUFLEET_HOSTILE_SEED     which calls come, and which faults (1)
    GPUFLEET_HOSTILE_SECONDS  for how long, with faults; without it, twelve batches without any

Every batch ends with the verdict of the auditor. What broke is told with the smallest calls that break it.
"""

import asyncio
import os
from random import Random

from tests.chaos.catalogue import BY_NAME, Row
from tests.chaos.stage import Setting, Stage
from tests.hostile.ground import Ground, Verdict

SEED = os.environ.get("GPUFLEET_HOSTILE_SEED") or "1"
SECONDS = float(os.environ.get("GPUFLEET_HOSTILE_SECONDS") or "0")
BATCHES = 12
CALLS = 16
AGAIN = "make soak-security SEEDS={seed} SOAK_SECONDS={seconds:.0f}"
FAULTS = (
    "kill-after-write-k",
    "leader-paused",
    "leader-partitioned",
    "server-restart",
    "server-down",
    "watch-cut",
    "too-many-requests",
    "bind-unknown-applied",
    "answer-cut",
)
"""What comes beside hostile calls: what kills, cuts off and forgets."""

ROWS: tuple[Row, ...] = tuple(BY_NAME[name] for name in FAULTS)
SETTING = Setting(nodes=3, gpus_per_node=4, replicas=1)
SOAK_SETTING = Setting(nodes=3, gpus_per_node=4, replicas=2)


class Play:
    """Batch after batch, and what broke."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.broken: list[str] = []
        self.calls = 0
        self.batches = 0
        self._random = Random(f"{seed}/play")

    async def short(self, stage: Stage) -> None:
        """Some batches without faults; then green asks for what it is owed."""
        ground = await self._begin(stage)
        try:
            while self.batches < BATCHES and not self.broken:
                await self._judge(ground, await ground.batch(CALLS))
            if not self.broken:
                await self._owed(ground)
        finally:
            await self._end(ground)

    async def long(self, stage: Stage) -> None:
        """Batches with a fault beside each, until the time is over."""
        ground = await self._begin(stage)
        until_s = stage.clock.monotonic_s() + SECONDS
        try:
            while stage.clock.monotonic_s() < until_s and not self.broken:
                row = self._random.choice(ROWS)
                answered, _ = await asyncio.gather(ground.calls(CALLS), self._fault(stage, row))
                verdict = await ground.verdict(answered)
                calmed = verdict if not verdict.unrest else await ground.again([])
                await self._judge(ground, calmed, row.name)
                if self.batches % 5 == 0 and not self.broken:
                    await self._owed(ground)
                    await ground.clear()
        finally:
            await self._end(ground)

    async def _begin(self, stage: Stage) -> Ground:
        ground = Ground(stage, self.seed)
        await ground.furnish()
        unrest = await ground.rest()
        assert not unrest, unrest
        return ground

    async def _fault(self, stage: Stage, row: Row) -> None:
        await stage.endure([stage.faults[row.name]], row.lasts_s)

    async def _judge(self, ground: Ground, verdict: Verdict, beside: str = "") -> None:
        self.batches += 1
        self.calls += len(verdict.answered)
        taken = sum(200 <= one.code < 300 for one in verdict.answered)
        words = f" beside {beside}" if beside else ""
        came = f"{taken} of {len(verdict.answered)} calls were taken, {len(verdict.findings)} findings"
        ground.stage.tell(f"seed {self.seed}, batch {self.batches}{words}: {came}")
        if verdict.unrest:
            self.broken.append(f"the cluster came to no rest: {verdict.unrest}")
        for one in verdict.findings:
            ground.stage.tell(str(one))
            self.broken.append(str(one))
        if verdict.findings:
            self.broken += ["the fewest calls that break it:", *map(str, await ground.smallest(verdict))]

    async def _owed(self, ground: Ground) -> None:
        lacks = await ground.owed_is_had()
        if lacks:
            self.broken.append(lacks)

    async def _end(self, ground: Ground) -> None:
        ground.people.close()
        answers = ", ".join(
            f"{actor} {code}: {count}" for (actor, code), count in sorted(ground.codes.items())
        )
        ground.stage.tell(f"answers: {answers}")
        for replica in ground.stage.replicas:
            self.broken += replica.crashes

    def verdict(self) -> str:
        """The last line of a run."""
        again = AGAIN.format(seed=self.seed, seconds=max(SECONDS, 60.0))
        said = f"{self.batches} batches, {self.calls} hostile calls, {len(self.broken)} lines of what broke"
        return f"verdict of the audit: {said}; again: {again}"
