"""After the API server was killed scheduling goes on within 30 s of its return, with a Lease of 15 s."""

import asyncio
from pathlib import Path

from gpufleet.simulation import cluster_recipe, pod_facts
from gpufleet.simulation.cluster_recipe import NAMESPACE
from tests.chaos.stage import Setting, Stage, play_on_stage
from tests.chaos.traffic import RECIPE

GOES_ON_WITHIN_S = 30.0
"""The bound that is promised, not a measure of this machine."""

LONGER_THAN_A_LEASE_S = 17.0


def test_scheduling_goes_on_within_30_s_of_the_return_of_a_server_that_was_killed(tmp_path: Path) -> None:
    async def bound(stage: Stage, name: str) -> None:
        def has_node() -> bool:
            pod = stage.recorder.now().get((NAMESPACE, name))
            return pod is not None and bool(pod_facts.node_of(pod))

        await stage.until(has_node, GOES_ON_WITHIN_S)

    async def play(stage: Stage) -> None:
        for number, away_s in enumerate((0.0, LONGER_THAN_A_LEASE_S)):
            stage.kill_server()
            if away_s:
                for replica in stage.replicas:
                    replica.proxy.close_door()
            await stage.await_server()
            await asyncio.sleep(away_s)
            for replica in stage.replicas:
                await replica.proxy.open_door()
            returned_s = stage.clock.monotonic_s()
            name = f"after-return-{number}"
            await stage.traffic.pod(cluster_recipe.pod(name, 1, RECIPE))
            await bound(stage, name)
            after_s = stage.clock.monotonic_s() - returned_s
            stage.tell(f"{name} has its node {after_s:.1f} s after the return, away for {away_s:.0f} s more")

    play_on_stage(tmp_path, 1, (), play, Setting(flags=("--lease-seconds=15",)))
