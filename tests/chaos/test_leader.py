"""The leader dies or sleeps in the middle of a burst of 1,000 gang pods, on a real API server.

No pod is bound twice, no device is given twice, no gang stays half bound, and every pod that is gone has been
replaced by its controller. `make chaos` runs this and ``test_faults``; SEED chooses other moments.
"""

import asyncio
import os
from pathlib import Path
from random import Random

from gpufleet.simulation import pod_facts
from gpufleet.simulation.history import PODS
from tests.chaos.replica import Replica
from tests.chaos.stage import Setting, Stage, play_on_stage

SEED = int(os.environ.get("GPUFLEET_CHAOS_SEED") or "1")
GANGS = ((100, 4), (10, 30), (4, 75))
"""Members of a gang, and how many gangs of that size: 1,000 pods."""

PODS_IN_ALL = 1000
MORE = int(os.environ.get("GPUFLEET_CHAOS_MORE") or "1")
"""How many leaders more than two meet their fate."""

SETTING = Setting(nodes=64, gpus_per_node=16, gang_deadline_s=20.0, reports_every_s=2.0)


async def burst(stage: Stage, random: Random) -> None:
    """All gangs at once, in some order, each under a ReplicaSet."""
    sizes = [size for size, count in GANGS for _ in range(count)]
    random.shuffle(sizes)
    await asyncio.gather(
        *(stage.traffic.gang(f"gang-{number}", size, 1) for number, size in enumerate(sizes))
    )


async def present_leader(stage: Stage) -> Replica:
    """Wait until a life leads: on a busy machine one may have lost the Lease a moment ago."""
    await stage.until(lambda: stage.leader() is not None)
    leader = stage.leader()
    assert leader is not None
    return leader


async def next_leader(stage: Stage, before: str) -> Replica:
    """Wait until another life leads."""
    await stage.until(lambda: (now := stage.leader()) is not None and now.identity != before)
    leader = stage.leader()
    assert leader is not None
    stage.tell(f"{leader.identity} leads, {stage.recorder.bindings} pods are bound")
    return leader


async def all_is_well(stage: Stage, leaders: int) -> None:
    """Everything runs, every promise held, and so many epochs have bound."""
    assert await stage.unrest(within_s=90) == []
    stage.tell("at rest")
    history = stage.recorder.history(stage.rules())
    bound = [pod for pod in history.final(PODS).values() if pod_facts.node_of(pod)]
    assert len(bound) == PODS_IN_ALL
    epochs = {pod_facts.grant_of(written.latest)[0] for written in history.of(PODS)} - {None}
    assert len(epochs) >= leaders


async def sleep_past_the_lease(stage: Stage) -> None:
    """SIGSTOP the leader, and let it wake when another has begun to bind."""
    sleeper = await present_leader(stage)
    identity, bindings = sleeper.identity, stage.recorder.bindings
    sleeper.stop()
    stage.tell(f"{identity} sleeps after Binding {bindings}")
    await next_leader(stage, identity)
    await stage.until(lambda: stage.recorder.bindings > bindings + 40)
    sleeper.go_on()
    stage.tell(f"{identity} wakes after Binding {stage.recorder.bindings}")


async def die(stage: Stage) -> None:
    """SIGKILL the leader."""
    leader = await present_leader(stage)
    identity = leader.identity
    leader.kill()
    stage.tell(f"{identity} is killed after Binding {stage.recorder.bindings}")
    await next_leader(stage, identity)


def test_leaders_killed_and_stopped_in_the_middle_of_a_burst(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        random = Random(f"{SEED}/moments")
        users = asyncio.create_task(burst(stage, random))
        moments = sorted(random.sample(range(20, 850), 2 + MORE))
        fates = [die, sleep_past_the_lease, *random.choices((die, sleep_past_the_lease), k=MORE)]
        random.shuffle(fates)
        for moment, fate in zip(moments, fates, strict=True):
            # Each leader binds some pods before it meets its fate.
            reached = max(moment, stage.recorder.bindings + 30)
            await stage.until(lambda: stage.recorder.bindings >= reached)  # noqa: B023
            await fate(stage)
        await users
        stage.tell("all is asked for")
        await all_is_well(stage, leaders=len(moments) + 1)

    play_on_stage(tmp_path, SEED, (), play, SETTING)
