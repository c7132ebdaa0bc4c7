"""The mirror of the wire edge ends up equal to the server under every fault of watches and lists."""

from collections.abc import Awaitable
from random import Random

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.clock import Clock
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import PODS
from gpufleet.kube.transport import Transport
from gpufleet.simulation import history
from gpufleet.simulation.faults.catalogue import BY_NAME, make_faults
from gpufleet.simulation.scenario import run_scenario
from gpufleet.simulation.world import RunPlan

NAMES = (
    "watch-cut", "watch-410-status", "watch-410-event", "list-410-mid-page", "compacted-while-paused",
    "watch-silent", "events-twice", "out-of-order-kinds", "delete-create-same-name",
    "lagging-second-server", "server-down",
)  # fmt: skip


class Named(Structure, frozen=True):
    """Of an object only its name."""

    metadata: Metadata


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_mirror_settles_to_what_the_server_has(name: str, seed: int) -> None:
    mirrors: list[Mirror[Named]] = []

    def mirroring(_: str, transport: Transport, clock: Clock, random: Random, /) -> Awaitable[None]:
        client = Client(transport, clock, random)
        mirrors.append(Mirror(client, PODS, msgspec.json.Decoder(Named), lambda _: None))
        return mirrors[-1].run()

    outcome = run_scenario(mirroring, seed, lambda random: make_faults([name], random), RunPlan(calm_s=300.0))
    assert outcome.acted[name], f"{BY_NAME[name].words} It never happened: the run proves nothing"
    final = outcome.history.final(history.PODS)
    known = {key: pod.metadata.resource_version for key, pod in mirrors[-1].objects.items()}
    assert known == {key: pod["metadata"]["resourceVersion"] for key, pod in final.items()}
