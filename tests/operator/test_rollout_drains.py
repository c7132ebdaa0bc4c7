"""Which pods keep a node from being changed, and which labels a rollout pauses."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gpufleet.drain.plan import PodMove, Way, WorkPlan
from gpufleet.eviction.plan import Cause, EvictionRefusal, Victim
from gpufleet.kube.objects.resource_claims import ResourceClaimObject, ResourceClaimStatus
from gpufleet.model.identifiers import FleetPolicyName, NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.rollout_actions import resumed, running_operands, written_backfill
from gpufleet.operator.rollout_drains import (
    PlainDrains,
    PlannedDrains,
    RefusedEvictions,
    gpu_consumers,
    pods_by_node,
)
from gpufleet.operator.rollout_objects import HeldPod
from gpufleet.operator.rollout_planning import KnownRollouts
from tests.operator.builders import DIGEST, node

N1 = NodeName("n1")
GPU = {"nvidia.com/gpu": "1"}
AT_NOON_US = 1_767_268_800 * 10**6
"""The first of January 2026, noon UTC."""

MINUTE_US = 60 * 10**6
ASKED = "gpufleet.io/checkpoint-requested"
CHECK = {"gpufleet.io/driver-check": "x"}


def pod(name: str, amounts: dict[str, str] | None = None, **changes: Any) -> HeldPod:
    metadata = {"name": name, "namespace": "a", "uid": name, **changes.pop("metadata", {})}
    containers = [{"name": "c", "resources": {"limits": GPU if amounts is None else amounts}}]
    spec = {"nodeName": "n1", "containers": containers, **changes.pop("spec", {})}
    written = {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **changes}}
    return msgspec.json.decode(msgspec.json.encode(written), type=HeldPod)


def drains(*pods: HeldPod, refused: RefusedEvictions | None = None, now_us: int = AT_NOON_US) -> PlainDrains:
    return PlainDrains(pods_by_node(pods, "gpufleet-system"), refused or RefusedEvictions(), now_us)


def stamped(phase: RolloutPhase, place_until_us: int = 0) -> Stamp:
    """A node whose drain began at noon."""
    policy, end_us = FleetPolicyName("p"), AT_NOON_US + 60 * MINUTE_US
    stamp = Stamp(policy, DIGEST, "", phase, AT_NOON_US, end_us, began_us=AT_NOON_US)
    return msgspec.structs.replace(stamp, place_until_us=place_until_us)


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
    check = {"namespace": "gpufleet-system", "labels": CHECK}
    found = drains(
        pod("ended", phase="Succeeded"), pod("daemon", metadata=daemon), pod("check", metadata=check)
    )
    assert found.drain_of(N1, None).is_over


def test_work_cannot_hide_behind_the_label_of_a_check() -> None:
    """The author of a pod writes its labels; only in the operator's namespace it is the operator."""
    found = drains(pod("work", metadata={"namespace": "team", "labels": CHECK})).drain_of(N1, None)
    assert found.holders == ("work",)


def test_a_pod_that_was_told_to_end_is_waited_for_and_not_told_again() -> None:
    found = drains(pod("p", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})).drain_of(N1, None)
    assert (found.holders, found.ending) == ((), ("p",))


def test_a_refused_eviction_is_told_until_the_pod_was_told_to_end() -> None:
    refused = RefusedEvictions()
    victim = Victim(PodName("a", "p", PodUid("p")), "driver-rollout")
    refused.note(EvictionRefusal(victim, Cause.BUDGET, "the budget b allows none", 10.0), now_s=5.0)
    assert drains(pod("p"), refused=refused).drain_of(N1, None).stuck == "a/p: the budget b allows none"
    assert refused.due_s(PodUid("p")) == 15.0
    refused.forget(victim)
    assert drains(pod("p"), refused=refused).drain_of(N1, None).stuck == ""


def test_a_checkpoint_is_asked_for_and_waited_for_until_it_is_written_or_the_time_is_over() -> None:
    stamp = stamped(RolloutPhase.ASKING)
    on_request = {"gpufleet.io/checkpoint-on-request": "true"}
    asked = {**on_request, ASKED: "2026-01-01T12:00:05.000000Z/2026-01-01T12:05:00.000000Z"}
    late = {**on_request, ASKED: "2026-01-01T12:00:05.000000Z/2026-01-01T12:00:30.000000Z"}
    earlier = {**on_request, ASKED: "2025-12-31T12:00:00.000000Z/2025-12-31T12:05:00.000000Z"}
    answered = {**asked, "gpufleet.io/checkpointed-at": "2026-01-01T12:00:30Z"}
    found = drains(
        pod("new", metadata={"annotations": on_request}),
        pod("asked", metadata={"annotations": asked}),
        pod("late", metadata={"annotations": late}),
        pod("earlier", metadata={"annotations": earlier}),
        pod("answered", metadata={"annotations": answered}),
        pod("cannot"),
        now_us=AT_NOON_US + MINUTE_US,
    ).drain_of(N1, stamp)
    assert set(found.unasked) == {"new", "earlier"}
    assert found.saving_until_us == AT_NOON_US + 5 * MINUTE_US
    assert set(found.due) == {"late", "answered", "cannot"}


def claim(driver: str = "gpu.nvidia.com", uid: str = "p", **result: Any) -> ResourceClaimObject:
    """A claim with a device of a driver, used by a pod."""
    device = {"request": "r", "driver": driver, "pool": "n1", "device": "gpu-0", **result}
    status = {
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid}],
    }
    written = {"metadata": {"name": "c", "namespace": "a"}, "status": status}
    return msgspec.json.decode(msgspec.json.encode(written), type=ResourceClaimObject)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (claim(), True),
        (claim("gpu.amd.com"), True),
        (claim(adminAccess=True), False),
        (claim("dra.networking.example.com"), False),
        (claim("compute-domain.nvidia.com"), False),
        (claim(uid="another"), False),
    ],
)
def test_a_pod_with_gpus_by_a_claim_is_in_the_way(found: ResourceClaimObject, *, holds: bool) -> None:
    by_node = pods_by_node([pod("p", {"cpu": "1"})], "gpufleet-system", frozenset(gpu_consumers([found])))
    drain = PlainDrains(by_node, RefusedEvictions(), AT_NOON_US).drain_of(N1, None)
    assert drain.holders == (("p",) if holds else ())


def test_a_claim_that_has_nothing_yet_holds_nothing() -> None:
    waiting = msgspec.structs.replace(claim(), status=ResourceClaimStatus())
    assert list(gpu_consumers([waiting])) == []


def test_what_the_plan_does_not_know_is_told_to_end_only_where_something_makes_it_anew() -> None:
    of_job = {"ownerReferences": [{"kind": "Job", "controller": True}]}
    found = planned(pods=(pod("bare"), pod("made", metadata=of_job)))
    drain = found.drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (drain.kept, drain.due) == (("bare",), ("made",))
    assert drain.kept_words == "pod a/bare stays: no controller makes it anew"


def test_nodes_with_the_least_work_come_first() -> None:
    found = drains(pod("p"), pod("q", spec={"nodeName": "n2"}), pod("r", spec={"nodeName": "n2"}))
    names = [NodeName(name) for name in ("n2", "n1", "n3")]
    assert found.order("p", names) == ("n3", "n1", "n2")


def planned(
    *works: WorkPlan, pods: Sequence[HeldPod], problem: str = "", now_us: int = AT_NOON_US
) -> PlannedDrains:
    """What a plan of noon for the node n1 says of these pods."""
    plain = drains(*pods, now_us=now_us)
    by_uid = {PodUid(one.metadata.uid): one for one in pods}
    of_pods = {PodUid(uid): work for work in works for uid in work.pods}
    known = KnownRollouts(AT_NOON_US, frozenset({N1}), frozenset(by_uid), of_pods, {}, problem)
    return PlannedDrains(plain, known, by_uid, "")


def moving(*uids: str, saves: bool = False) -> WorkPlan:
    moves = tuple(PodMove(f"a/{uid}", uid, "n1", "n9") for uid in uids)
    return WorkPlan("gang g", Way.MOVES, 2.0, ("n1",), 0.0, moves, saves, pods=uids)


def test_a_gang_moves_whole_with_its_pods_on_other_nodes() -> None:
    pods = (pod("r0"), pod("r1", spec={"nodeName": "n2"}))
    found = planned(moving("r0", "r1"), pods=pods).drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert {one.pod: one.node for one in found.moves} == {"r0": "n9", "r1": "n9"}
    assert found.due == ()


def test_a_gang_is_asked_to_save_its_work_as_a_whole_before_it_moves() -> None:
    metadata = {"annotations": {"gpufleet.io/checkpoint-on-request": "true"}}
    pods = (pod("r0", metadata=metadata), pod("r1", metadata=metadata, spec={"nodeName": "n2"}))
    found = planned(moving("r0", "r1", saves=True), pods=pods).drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (found.unasked, found.moves, found.due) == (("r0", "r1"), (), ())


def test_nothing_moves_while_no_scheduler_keeps_places() -> None:
    found = planned(moving("r0"), pods=(pod("r0"),), problem="no scheduler keeps places: none leads")
    drain = found.drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (drain.kept, drain.kept_words, drain.moves) == (
        ("r0",),
        "no scheduler keeps places: none leads",
        (),
    )


def test_work_is_left_alone_until_its_end_or_until_others_make_a_place() -> None:
    ends = WorkPlan("pod a/p", Way.WAITS, 1.0, ("n1",), 600.0, pods=("p",))
    later = msgspec.structs.replace(moving("q"), at_s=300.0)
    found = planned(ends, later, pods=(pod("p"), pod("q"))).drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (set(found.kept), found.moves, found.due) == ({"p", "q"}, (), ())
    assert found.wait_until_us == AT_NOON_US + 5 * MINUTE_US


def test_only_a_plan_says_that_ends_are_waited_for_beside_which_others_may_start() -> None:
    ends = WorkPlan("pod a/p", Way.WAITS, 1.0, ("n1",), 600.0, pods=("p",))
    later = msgspec.structs.replace(moving("q"), at_s=300.0)
    stamp = stamped(RolloutPhase.CORDONED)
    assert planned(ends, pods=(pod("p"),)).drain_of(N1, stamp).waits_for_ends is True
    # Until when work stays that moves later is not known to a scheduler.
    assert planned(later, pods=(pod("q"),)).drain_of(N1, stamp).waits_for_ends is False
    assert PlannedDrains(drains(pod("p")), None, {}, "").drain_of(N1, stamp).waits_for_ends is None
    # A pod that came after the plan was made may be one that ends.
    known = KnownRollouts(AT_NOON_US, frozenset({N1}), frozenset(), {}, {})
    assert PlannedDrains(drains(pod("new")), known, {}, "").drain_of(N1, stamp).waits_for_ends is None


def test_the_node_says_until_when_others_may_start_as_its_stamp_does() -> None:
    key, at_one = "gpufleet.io/backfill-until", AT_NOON_US + 60 * MINUTE_US
    closed = stamped(RolloutPhase.WAITING)
    opened = msgspec.structs.replace(closed, backfill_until_us=at_one)
    plain = msgspec.structs.replace(node(), stamp=closed)
    assert written_backfill(plain, opened) == {key: "2026-01-01T13:00:00Z"}
    shown = msgspec.structs.replace(node(annotations={key: "2026-01-01T13:00:00Z"}), stamp=opened)
    assert written_backfill(shown, opened) == {}
    changing = msgspec.structs.replace(opened, phase=RolloutPhase.CHANGING)
    for after in (closed, changing, None):
        assert written_backfill(shown, after) == {key: None}
    # Another drain has written its own moment meanwhile.
    of_others = msgspec.structs.replace(node(annotations={key: "2026-01-01T18:00:00Z"}), stamp=opened)
    assert written_backfill(of_others, None) == {}


def test_work_without_a_place_is_told_to_end_only_after_the_time_that_the_policy_gives_it() -> None:
    without = WorkPlan("pod a/p", Way.NO_PLACE, 8.0, ("n1",), pods=("p",))
    patient = stamped(RolloutPhase.WAITING)
    until = stamped(RolloutPhase.WAITING, place_until_us=AT_NOON_US + MINUTE_US)
    for stamp in (patient, until):
        found = planned(without, pods=(pod("p"),)).drain_of(N1, stamp)
        assert found.kept_words == "pod a/p fits nowhere else now: 8 GPUs are short"
        assert found.due == ()
    late = planned(without, pods=(pod("p"),), now_us=AT_NOON_US + MINUTE_US)
    assert late.drain_of(N1, until).due == ("p",)
    assert late.drain_of(N1, patient).due == ()


def test_what_no_controller_makes_anew_stays_and_work_of_other_schedulers_ends() -> None:
    bare = WorkPlan("pod a/bare", Way.STAYS, 1.0, ("n1",), why="no controller makes it anew", pods=("bare",))
    other = WorkPlan("pod a/other", Way.EVICTED, 1.0, ("n1",), 0.0, pods=("other",))
    found = planned(bare, other, pods=(pod("bare"), pod("other")))
    drain = found.drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (drain.kept, drain.due) == (("bare",), ("other",))
    assert drain.kept_words == "pod a/bare stays: no controller makes it anew"


def test_no_pod_is_told_to_end_before_a_plan_knows_its_node() -> None:
    plain = drains(pod("p"))
    found = PlannedDrains(plain, None, {}, "drains cannot be planned: you may not list nodes")
    drain = found.drain_of(N1, stamped(RolloutPhase.CORDONED))
    assert (drain.kept, drain.due) == (("p",), ())
    assert drain.kept_words == "drains cannot be planned: you may not list nodes"


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
