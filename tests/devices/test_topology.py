"""Files of fake-gpu-operator become the machines that they describe; what has no effect is named."""

from pathlib import Path

import pytest

from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.machine import Machine
from gpufleet.devices.simulated.topology import Topology, read_topology

CORPUS = Path(__file__).parents[1] / "corpus" / "devices" / "topology"
EXPECTED = sorted(CORPUS.glob("*.expected"))
"""One for each pool of each file, written by hand from the documentation of the format."""


def told(topology: Topology) -> list[str]:
    """The machine and its notices, in lines."""
    described = topology.description
    lines = [f"driver {described.driver_version} {described.runtime_version}"]
    for group in described.groups:
        numa = " ".join(map(str, group.numa_nodes))
        lines.append(
            f"{group.text.count} x {group.model.name} {group.memory_mib} MiB, "
            f"{group.text.reserved_mib} reserved, {group.text.power_limit_w} W, numa {numa}"
        )
        lines += [f"id {uuid}" for uuid in group.uuids]
    return lines + sorted(f"notice {notice.field}" for notice in topology.notices)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_a_pool_is_the_machine_that_its_file_describes(path: Path) -> None:
    name, pool = path.stem.split(".")
    text = (CORPUS / f"{name}.yaml").read_text(encoding="utf-8")
    assert told(read_topology(text, pool)) == path.read_text(encoding="utf-8").splitlines()


def test_the_machine_has_the_ids_and_numa_nodes_of_the_file() -> None:
    topology = read_topology((CORPUS / "node.yaml").read_text(encoding="utf-8"))
    fleet = SimulatedBackend(Machine(topology.description, lambda: 0.0, list)).fleet()
    assert [gpu.uuid[:12] for gpu in fleet.gpus] == ["GPU-5b7c2f9e", "GPU-0f5b6f6e"]
    assert [gpu.numa_node for gpu in fleet.gpus] == [0, 1]


def test_a_pool_without_gpus_is_a_machine_without_gpus() -> None:
    topology = read_topology("nodePools: {default: {gpuCount: 0, gpuMemory: 0, gpuProduct: ''}}")
    assert topology.description.groups == ()


def test_a_notice_says_why() -> None:
    topology = read_topology("{nodePools: {default: {gpuCount: 1, gpuProduct: T4}}, migStrategy: mixed}")
    assert "migStrategy has no effect: how instances are offered" in str(topology.notices[0])


POOL = "nodePools: {default: {gpuProduct: T4, gpuCount: 2%s}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a mapping with nodePools"),
        ("[]", "a mapping with nodePools"),
        ("{}", "expected nodePools, or gpus"),
        ("config: {node-autofill: {gpu-count: 2}}", "fields of old versions"),
        ("kind: ConfigMap", "data.topology.yml: key missing"),
        ("nodePools: {other: {}}", "no such pool, found 'default'; expected other"),
        (POOL % ", gpuCuont: 3", "nodePools.*gpuCuont.*did you mean gpuCount"),
        (POOL % ", gpuCount: 3", "nodePools.default.gpuCount: is written twice"),
        (POOL % ", gpu: {profile: t4}", "both forms"),
        (POOL % ", numa: {zones: 2, gpusPerZone: [1, 2]}", "add up to 2"),
        (POOL % ", numa: {zones: 3, gpusPerZone: [1, 1]}", "3 counts"),
        ("nodePools: {default: {gpuProduct: T44, gpuCount: 1}}", "gpuProduct: no such model.*did you mean"),
        ("nodePools: {default: {gpuProduct: T4, gpuCount: 1000000000}}", "at most 64"),
        ("nodePools: {default: {gpu: {profile: h1000}}}", "did you mean h100"),
        ("nodePools: {default: {gpu: {backend: real}}}", "backend"),
        (
            "nodePools: {default: {gpu: {profile: t4, overrides: {device_count: two}}}}",
            "overrides.device_count",
        ),
        ("{gpus: [{id: a}, {id: a}], gpuProduct: T4}", "two GPUs of one id"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(MachineError, match=problem):
        read_topology(text)
