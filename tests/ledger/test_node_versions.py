"""What a version of a node or of its report says."""

from typing import Any

import msgspec
import pytest

from gpufleet.ledger.node_versions import devices_version, node_version
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.versions import DevicesVersion, NodeVersion
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.taint import CORDON

NOON_US = 1_795_867_200_000_000
MINUTE_US = 60_000_000


def at(minute: int) -> str:
    return f"2026-11-28T12:{minute:02}:00Z"


def us(minute: int) -> int:
    return NOON_US + minute * MINUTE_US


METADATA = {"name": "n", "uid": "u", "resourceVersion": "9", "creationTimestamp": at(0)}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": at(2)}
AWAY = {"type": "Ready", "status": "Unknown", "lastTransitionTime": at(30)}


def node(
    *taints: dict[str, Any],
    condition: dict[str, Any] = READY,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> NodeVersion:
    body = {
        "metadata": {**METADATA, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}, "conditions": [condition]},
    }
    return node_version(msgspec.json.encode(body))


def test_a_node_that_is_ready_neither_joins_nor_drains() -> None:
    found = node()
    assert (found.joins, found.drains, found.created_us, found.at_us) == (False, False, us(0), us(2))
    assert (found.cpu_milli, found.memory_bytes) == (8_000, 64 * 2**30)


def test_a_node_that_is_not_ready_is_so_since_its_condition_turned() -> None:
    found = node(condition=AWAY)
    assert (found.joins, found.joins_since_us) == (True, us(30))


@pytest.mark.parametrize(
    "key",
    [
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
        "node.cilium.io/agent-not-ready",
        "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
    ],
)
def test_a_startup_taint_says_that_a_node_still_joins(key: str) -> None:
    found = node({"key": key, "effect": "NoSchedule", "timeAdded": at(5)})
    assert (found.joins, found.joins_since_us, found.drains) == (True, us(5), False)


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", CORDON.key])
def test_a_taint_of_what_is_about_to_go_says_that_a_node_drains(key: str) -> None:
    found = node({"key": key, "effect": "NoSchedule", "timeAdded": at(5)})
    assert (found.joins, found.drains, found.drains_since_us) == (False, True, us(5))


def test_a_cordon_drains_also_before_its_taint_is_there() -> None:
    found = node(unschedulable=True)
    assert (found.drains, found.drains_since_us) == (True, None)


def test_another_taint_says_nothing() -> None:
    found = node({"key": "nvidia.com/gpu", "effect": "NoSchedule"})
    assert (found.joins, found.drains) == (False, False)


def test_prices_go_by_what_clouds_write_on_a_node() -> None:
    labels = {
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": "eu-central-1a",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "karpenter.sh/capacity-type": "spot",
    }
    found = node(labels=labels, providerID="aws:///eu-central-1a/i-0123")
    assert found.priced_as == PricedNode(
        "aws", "eu-central-1", "eu-central-1a", "p5.48xlarge", "H100-80GB", "spot", labels
    )
    assert node().priced_as == PricedNode(capacity_type="on-demand")


def report(devices: list[dict[str, Any]], holders: list[dict[str, Any]]) -> DevicesVersion:
    body = {"metadata": METADATA, "spec": {"devices": devices, "holders": holders}}
    return devices_version(msgspec.json.encode(body))


def test_a_report_says_which_cards_are_ill_and_since_when() -> None:
    taint = {"key": "gpufleet.io/unhealthy", "effect": "NoSchedule", "timeAdded": at(7)}
    found = report(
        [
            {"id": "GPU-a", "model": "NVIDIA L4", "memoryMiB": 24_000, "usableMemoryMiB": 23_000},
            {"id": "GPU-b", "memoryMiB": 24_000, "health": "unhealthy", "taints": [taint]},
        ],
        [],
    )
    well, ill = found.devices
    assert (well.ill, well.usable_mib, well.model) == ("", 23_000, "NVIDIA L4")
    assert (ill.ill, ill.ill_since_us, ill.usable_mib) == ("unhealthy", us(7), 24_000)
    assert (found.created_us, found.at_us, found.node) == (us(0), us(0), "n")


def test_holders_are_pods_with_what_they_hold_and_no_processes() -> None:
    found = report(
        [],
        [
            {"device": "GPU-a", "podUID": "whole"},
            {"device": "GPU-a", "podUID": "share", "kind": "share", "gpuMilli": 250, "memoryMiB": 6_000},
            {"device": "GPU-a", "podUID": "part", "kind": "mig", "migProfile": "1g.10gb", "migStart": 2},
            {"device": "GPU-a", "foreign": "a process"},
        ],
    )
    card = DeviceId("GPU-a")
    assert {one.pod_uid: one.device for one in found.holders} == {
        "whole": GrantedDevice(card),
        "share": GrantedDevice(card, GrantKind.SHARE, 250, 6_000),
        "part": GrantedDevice(card, GrantKind.MIG, 1000, None, "1g.10gb", 2),
    }
