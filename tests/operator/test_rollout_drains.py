"""Which pods keep a node from being changed, and which labels a rollout pauses."""

from typing import Any

import msgspec

from gpufleet.eviction.plan import Cause, Refusal, Victim
from gpufleet.model.identifiers import FleetPolicyName, NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.rollout_actions import resumed, running_operands
from gpufleet.operator.rollout_drains import PlainDrains, RefusedEvictions, pods_by_node
from gpufleet.operator.rollout_objects import HeldPod
from tests.operator.builders import DIGEST, node

N1 = NodeName("n1")
GPU = {"nvidia.com/gpu": "1"}
AT_NOON_US = 1_767_268_800 * 10**6
"""The first of January 2026, noon UTC."""


def pod(name: str, amounts: dict[str, str] | None = None, **changes: Any) -> HeldPod:
    metadata = {"name": name, "namespace": "a", "uid": name, **changes.pop("metadata", {})}
    containers = [{"name": "c", "resources": {"limits": GPU if amounts is None else amounts}}]
    spec = {"nodeName": "n1", "containers": containers, **changes.pop("spec", {})}
    written = {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **changes}}
    return msgspec.json.decode(msgspec.json.encode(written), type=HeldPod)


def drains(*pods: HeldPod, refused: RefusedEvictions | None = None) -> PlainDrains:
    return PlainDrains(pods_by_node(pods), refused or RefusedEvictions())


def test_work_that_holds_gpus_in_any_container_is_in_the_way() -> None:
    first = {"initContainers": [{"name": "i", "resources": {"limits": GPU}}], "containers": [{"name": "c"}]}
    found = drains(
        pod("whole"),
        pod("instance", {"nvidia.com/mig-1g.10gb": "1"}),
        pod("share", {"gpufleet.io/gpu-share": "1"}),
        pod("first", spec=first),
        pod("none", {"cpu": "1"}),
    ).drain_of(N1, None)
    assert set(found.holders) == {"whole", "instance", "share", "first"}


def test_what_has_ended_or_belongs_to_the_node_or_checks_it_is_not() -> None:
    daemon = {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}
    check = {"labels": {"gpufleet.io/driver-check": "x"}}
    found = drains(
        pod("ended", phase="Succeeded"), pod("daemon", metadata=daemon), pod("check", metadata=check)
    )
    assert found.drain_of(N1, None).is_over


def test_a_pod_that_was_told_to_end_is_waited_for_and_not_told_again() -> None:
    found = drains(pod("p", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})).drain_of(N1, None)
    assert (found.holders, found.ending) == ((), ("p",))


def test_a_refused_eviction_is_told_until_the_pod_was_told_to_end() -> None:
    refused = RefusedEvictions()
    victim = Victim(PodName("a", "p", PodUid("p")), "driver-rollout")
    refused.note(Refusal(victim, Cause.BUDGET, "the budget b allows none", 10.0), now_s=5.0)
    assert drains(pod("p"), refused=refused).drain_of(N1, None).stuck == "a/p: the budget b allows none"
    assert refused.due_s(PodUid("p")) == 15.0
    refused.forget(victim)
    assert drains(pod("p"), refused=refused).drain_of(N1, None).stuck == ""


def test_a_checkpoint_counts_from_the_question_on() -> None:
    stamp = Stamp(FleetPolicyName("p"), DIGEST, "", RolloutPhase.ASKING, AT_NOON_US, AT_NOON_US)
    on_request = {"gpufleet.io/checkpoint-on-request": "true"}
    before = {**on_request, "gpufleet.io/checkpointed-at": "2026-01-01T11:59:00Z"}
    after = {**on_request, "gpufleet.io/checkpointed-at": "2026-01-01T12:00:30Z"}
    found = drains(
        pod("silent", metadata={"annotations": on_request}),
        pod("before", metadata={"annotations": before}),
        pod("after", metadata={"annotations": after}),
        pod("cannot"),
    )
    assert set(found.drain_of(N1, stamp).unanswered) == {"silent", "before"}


def test_nodes_with_the_least_work_come_first() -> None:
    found = drains(pod("p"), pod("q", spec={"nodeName": "n2"}), pod("r", spec={"nodeName": "n2"}))
    names = [NodeName(name) for name in ("n2", "n1", "n3")]
    assert found.order(names) == ("n3", "n1", "n2")


def test_only_operands_that_run_are_paused_and_only_those_that_were_paused_run_again() -> None:
    labels = {
        "nvidia.com/gpu.deploy.dcgm": "true",
        "nvidia.com/gpu.deploy.mig-manager": "false",
        "nvidia.com/gpu.deploy.driver": "true",
    }
    assert running_operands(node(labels=labels)) == ["nvidia.com/gpu.deploy.dcgm"]
    paused = {
        "nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade",
        "nvidia.com/gpu.deploy.dcgm-exporter": "paused-for-driver-upgrade",
        "nvidia.com/gpu.deploy.client": "false",
    }
    ours = "nvidia.com/gpu.deploy.client,nvidia.com/gpu.deploy.dcgm"
    found = node(labels=paused, annotations={"gpufleet.io/paused-operands": ours})
    assert resumed(found.annotations, found.labels) == {"nvidia.com/gpu.deploy.dcgm": "true"}
