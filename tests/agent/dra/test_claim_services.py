"""A claim that was prepared keeps its cards, also where the setting leaves no card to claims any more."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from gpufleet.agent.assembly import Agent
from gpufleet.agent.claim_services import CLAIMS
from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.dra.prepared_claims import ClaimRecord, PreparedClaim, PreparedDevice
from gpufleet.agent.kubelet.pod_resources import PodResources
from gpufleet.agent.machine_access import MachineAccess
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError
from tests.agent.dra.claim_world import NVIDIA, POOL, ClaimServer, World
from tests.agent.node_values import BOOT, NODE, a_gpu, a_node

CARDS = [a_gpu(f"GPU-{number}") for number in range(2)]


def an_agent(
    folder: Path, cards: str = "none", server: ClaimServer | None = None, *, cuts: bool = False
) -> Agent:
    settings = AgentSettings(
        NODE,
        kubelet_root=folder / "kubelet",
        cdi_folder=folder / "cdi",
        state_folder=folder / "state",
        driver_root=str(folder / "driver"),
        dra_cards=cards,
        dra_mig_on_demand=cuts,
    )
    link, lister = GrpcKubeletLink(settings.device_plugins), PodResources(settings.pod_resources)
    access = MachineAccess(BOOT, {}, lambda _: False, link, lister, time.monotonic, listens=False)
    client = Client(server or ClaimServer(), MachineClock(), random.Random(1))
    return Agent(settings, client, random.Random(1), access)


def remember(folder: Path) -> None:
    """An earlier agent prepared a claim with the first card."""
    device = PreparedDevice("gpu", POOL, "gpu-0", DeviceId("GPU-0"))
    claim = PreparedClaim("uid-one", "team", "one", NVIDIA, BOOT, (device,))
    ClaimRecord(folder / "state" / CLAIMS).keep(claim)


async def once_told(agent: Agent, problem: str) -> list[str]:
    """What keeps claims from their sockets, once the cards are known and this is told."""
    assert agent.claims is not None
    parts = {part.name: part for part in agent.claims.parts(agent.kubelet, agent.holders, agent.pods)}
    del parts["resource slices"]
    running = [asyncio.ensure_future(part.run()) for part in parts.values()]
    agent.monitor.gpus.publish(a_node(*CARDS))
    async with asyncio.timeout(10):
        sockets = parts["claim sockets"]
        while not (agent.by_plugin.value.gpus and problem in str(sockets.problems())):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    problems = list(parts["claim sockets"].problems())
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return problems


def test_cards_are_cut_for_claims_only_where_cards_go_to_claims(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--dra-mig-on-demand") as refusal:
        an_agent(tmp_path, "none", cuts=True)
    assert "--dra-cards beside it" in str(refusal.value)
    assert an_agent(tmp_path, "0", cuts=True).claims is not None


def test_without_claims_and_cards_for_them_nothing_of_claims_runs(tmp_path: Path) -> None:
    assert an_agent(tmp_path).claims is None


def test_a_claim_keeps_its_card_when_no_card_goes_to_claims_any_more(tmp_path: Path) -> None:
    remember(tmp_path)
    agent = an_agent(tmp_path)
    asyncio.run(once_told(agent, "did not register it yet"))
    assert [gpu.uuid for gpu in agent.by_plugin.value.gpus] == ["GPU-1"]


def test_a_claim_that_cannot_be_taken_back_is_told(tmp_path: Path) -> None:
    remember(tmp_path)
    (tmp_path / "kubelet").mkdir()
    # As where the chart mounts the folder of plugins no more.
    (tmp_path / "kubelet" / "plugins").touch()
    agent = an_agent(tmp_path)
    _, claim = asyncio.run(once_told(agent, "cannot be listened on"))
    assert claim.startswith("--dra-cards is none while claim team/one is prepared:")


def test_daemons_of_mps_are_of_the_cards_of_the_device_plugin_alone(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, "0")
    assert agent.sharing.mps is not None
    assert agent.sharing.mps.gpus is agent.by_plugin
    assert agent.by_plugin is not agent.monitor.gpus


def test_a_claim_waits_for_the_files_of_its_driver(tmp_path: Path) -> None:
    world = World(tmp_path, *CARDS)
    claim = world.allocated("one", "gpu-0")
    agent = an_agent(tmp_path, "all", world.server)
    assert agent.claims is not None
    agent.claims.parts(agent.kubelet, agent.holders, agent.pods)
    agent.monitor.gpus.publish(world.gpus.value)
    agent.claims.delivery.pools.publish(world.pools.value)
    asyncio.run(agent.claims.preparer.find_lost())
    with pytest.raises(RefusedError, match="no files of the driver of device gpu-0"):
        asyncio.run(agent.claims.preparer.prepare(NVIDIA, claim))
    libraries = tmp_path / "driver" / "usr" / "lib64"
    libraries.mkdir(parents=True)
    (libraries / f"libcuda.so.{world.gpus.value.drivers[0].version}").touch()
    made = asyncio.run(agent.claims.preparer.prepare(NVIDIA, claim))
    assert [one.device for one in made.devices] == ["gpu-0"]
