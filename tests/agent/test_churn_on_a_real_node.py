"""Fifty pods churn over eight shared GPUs of a real node while its agent and its kubelet die.

A minute of it, judged by what each container printed of itself. ``make soak-agent`` takes ten.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpufleet.agent.device_plugin.open_call_record import OpenCallRecord
from gpufleet.agent.gpus.gpu_monitor import read_boot_id
from gpufleet.agent.kubelet_services import CHECKPOINT
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node.real_node import AGENT
from gpufleet.localkube.node_agent import await_resource, machine_of, start_agent
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.agent.churn import STEADY, Churn, waits
from tests.agent.churn_judge import ContainerRecord, against_its_grant, against_moment, beyond_capacity
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import await_pod, awaited, processes_of

CHURN_S = float(os.environ.get("GPUFLEET_CHURN_S") or 60)
SEED = int(os.environ.get("GPUFLEET_CHURN_SEED") or 1)
EIGHT = SimulatedNodes(0, 8, gpu_model("H100-80GB"))
SLOTS = 80
SHARING = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, fractions: {maxShares: 10}}]}\n"
BUSY = 12
"""So many containers ran at once on the eight GPUs, or it was no churn."""

AWAY_S = 4.0
LOST = (
    "no healthy devices present",
    "code = Unavailable",
    "the client connection is closing",
    "StartError: ",
    "ContainerStatusUnknown: ",
)
"""Words for pods that a kubelet turned away while the agent was away or went away in a call, or was starting
when it died."""

LEFT_WAIT_S = 90.0
"""Sweeps are a minute apart where nothing happens."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster whose real node offers eight GPUs in shares, and our scheduler."""
    folder = tmp_path_factory.mktemp("real")
    sharing = folder / "sharing.yaml"
    sharing.write_text(SHARING, encoding="utf-8")
    with a_scheduled_real_node(folder, "churn") as running:
        start_agent(running, machine_of(EIGHT), [f"--config={sharing}"])
        await_resource(running, GPU_SHARE, SLOTS)
        yield running


def test_nothing_is_given_beyond_capacity_while_pods_churn(real: LocalCluster, tmp_path: Path) -> None:
    churn = Churn(real, tmp_path, SEED)
    churn.place(STEADY, {"gpu-fraction": "0.5"}, 1, 100_000)
    pod = await_pod(real, STEADY, "Running")
    awaited("it has all its processes", lambda: waits(tmp_path / pod["metadata"]["uid"]))
    steady = processes_of(pod)

    churn.go_on(CHURN_S / 3)
    assert churn.failed == {}
    real.node.restart(AGENT)
    churn.go_on(AWAY_S)
    churn.go_on(CHURN_S / 3)
    churn.restart_kubelet()
    churn.go_on(AWAY_S)
    churn.go_on(CHURN_S / 3)
    assert processes_of(await_pod(real, STEADY, "Running")) == steady
    churn.end()

    told = churn.told()
    wrong = judged(churn, told, churn.report()["devices"])
    story = f"{len(churn.names)} pods, {len(told)} ran, {len(churn.failed)} were lost in restarts"
    print(f"{story}; {len(churn.moments)} moments judged, wrong: {wrong}")  # noqa: T201  what a soak is for
    assert wrong == []
    assert at_once(told) >= BUSY, story
    assert [why for why in churn.failed.values() if not any(word in why for word in LOST)] == []
    awaited("nothing is left", lambda: not left(real, churn), lambda: f"{left(real, churn)}", LEFT_WAIT_S)
    churn.look()
    assert churn.audit.verdict(None, told) == []


def judged(churn: Churn, told: Mapping[str, ContainerRecord], devices: list[Object]) -> list[str]:
    """All that is wrong in a churn."""
    files = {one["id"]: f"nvidia{index}" for index, one in enumerate(devices)}
    room_mib = {one["id"]: int(one["usableMemoryMiB"]) for one in devices}
    return [
        *(
            line
            for uid, one in told.items()
            for line in against_its_grant(uid, one, churn.grants[uid], files)
        ),
        *beyond_capacity(told, room_mib),
        *(line for moment in churn.moments for line in against_moment(told, churn.names, moment)),
    ]


def at_once(told: Mapping[str, ContainerRecord]) -> int:
    """How many containers ran at the busiest moment."""
    return max(
        sum(one.runs(begun.begin_s, begun.begin_s) for one in told.values()) for begun in told.values()
    )


def left(cluster: LocalCluster, churn: Churn) -> dict[str, object]:
    """What there still is of shares though no pod is left."""
    checkpoint = OpenCallRecord(agent_folder(cluster.folder) / CHECKPOINT, read_boot_id()).load()
    found: dict[str, object] = {
        "files": churn.files(),
        "PodResources": churn.moment().held,
        "open calls": checkpoint.state.calls,
        "checkpoint": checkpoint.problem,
        "holders": churn.report()["holders"],
    }
    return {what: these for what, these in found.items() if these}
