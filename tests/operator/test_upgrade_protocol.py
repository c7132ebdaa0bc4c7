"""What a rollout tells driver managers in their own keys, and which of these keys it takes to be its own.

States and their order are those of NVIDIA's k8s-operator-libs (pkg/upgrade), keys those of its driver
manager.
"""

import itertools
import json
from typing import Any

import msgspec
import pytest

from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.operator.leaving import LeavingNode, leftover, node_patch
from gpufleet.operator.node_preflight import case_of
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.upgrade_protocol import STATES, own_keys, written_annotations, written_state
from gpufleet.preflight.judging import judge
from tests.operator.builders import DIGEST, node, node_object, policy

STATE, ENABLED = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu-driver-upgrade-enabled"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
PAUSED = "paused-for-driver-upgrade"
NEXT = {
    "wait-for-jobs-required": {"pod-deletion-required", "pod-restart-required"},
    "pod-deletion-required": {"pod-restart-required", "upgrade-failed"},
    "pod-restart-required": {"validation-required", "upgrade-failed"},
    "validation-required": {"upgrade-done", "upgrade-failed"},
}
"""The states of NVIDIA's operator that may follow each other.

``uncordon-required`` is no state here: the cordon is taken off in the write that ends the upgrade.
"""

ORDER = (
    RolloutPhase.CORDONED,
    RolloutPhase.WAITING,
    RolloutPhase.ASKING,
    RolloutPhase.EVICTING,
    RolloutPhase.STUCK,
    RolloutPhase.CHANGING,
    RolloutPhase.VALIDATING,
    RolloutPhase.RETURNED,
)


def stamp(phase: RolloutPhase) -> Stamp:
    return Stamp(FleetPolicyName("p"), DIGEST, "", phase, 1, 2, is_cordon_ours=True)


def written(phase: RolloutPhase) -> dict[str, str]:
    """The annotation of a stamp."""
    return {"gpufleet.io/rollout": msgspec.json.encode(stamp(phase)).decode()}


def rules(**parts: Any) -> set[str]:
    """What preflight finds on a node, without what is not known."""
    wanted = policy(driver={"source": "Image", "image": DIGEST}).driver
    assert wanted is not None
    return {one.rule for one in judge(case_of(node(**parts), wanted))} - {"facts-unknown"}


def test_every_phase_has_a_state_and_each_follows_as_in_the_operator_that_it_is_of() -> None:
    assert set(STATES) == set(RolloutPhase)
    states = list(dict.fromkeys(STATES[phase] for phase in ORDER))
    assert states == [*NEXT, "upgrade-done"]
    for before, after in itertools.pairwise(states):
        assert after in NEXT[before]
    assert STATES[RolloutPhase.FAILED] == STATES[RolloutPhase.ROLLED_BACK] == "upgrade-failed"


def test_a_node_that_begins_is_announced_in_both_keys() -> None:
    begins = stamp(RolloutPhase.CORDONED)
    assert written_state(node(), begins) == {STATE: "wait-for-jobs-required"}
    assert written_annotations(node(), begins) == {ENABLED: "true"}


def test_nothing_is_written_that_stands_there() -> None:
    there = node(labels={STATE: "validation-required"}, annotations={ENABLED: "true"})
    assert written_state(there, stamp(RolloutPhase.VALIDATING)) == {}
    assert written_annotations(there, stamp(RolloutPhase.VALIDATING)) == {}


@pytest.mark.parametrize(
    ("found", "after"),
    [("upgrade-done", "wait-for-jobs-required"), ("drain-required", None), ("upgrade-failed", None)],
)
def test_of_another_operators_states_only_a_settled_one_is_followed(found: str, after: str | None) -> None:
    there = node(labels={STATE: found}, managers={"gpu-operator": (STATE,)})
    assert written_state(there, stamp(RolloutPhase.CORDONED)).get(STATE) == after


def test_an_annotation_of_others_stays_as_it_is() -> None:
    there = node(annotations={ENABLED: "false"})
    assert written_annotations(there, stamp(RolloutPhase.CORDONED)) == {}
    assert written_annotations(there, None) == {}


def test_a_node_that_is_given_up_loses_what_the_rollout_wrote() -> None:
    there = node(
        labels={STATE: "wait-for-jobs-required"},
        annotations={ENABLED: "true", **written(RolloutPhase.WAITING)},
        managers={"gpufleet-rollout": (STATE,)},
        annotation_managers={"gpufleet-rollout": (ENABLED,)},
    )
    assert written_state(there, None) == {STATE: None}
    assert written_annotations(there, None) == {ENABLED: None}


def test_preflight_blocks_on_the_state_of_another_operator_and_not_on_ours() -> None:
    failed = {STATE: "upgrade-failed"}
    assert rules(labels=failed, managers={"gpu-operator": (STATE,)}) == {"foreign-upgrade-unfinished"}
    assert rules(labels=failed, managers={"gpufleet-rollout": (STATE,)}) == set()


def test_where_both_wrote_a_state_it_is_not_ours() -> None:
    both = {"gpufleet-rollout": (STATE,), "gpu-operator": (STATE,)}
    assert rules(labels={STATE: "upgrade-failed"}, managers=both) == {"foreign-upgrade-unfinished"}


def test_a_file_of_kubectl_has_no_writers_and_the_stamp_tells_what_is_ours() -> None:
    labels, annotations = {STATE: "upgrade-failed"}, {ENABLED: "true", **written(RolloutPhase.FAILED)}
    assert rules(labels=labels, annotations=annotations, managers={}) == set()
    assert rules(labels={STATE: "drain-required"}, annotations=annotations) == {"foreign-upgrade-unfinished"}


def test_parts_that_a_rollout_of_ours_paused_are_not_left_paused() -> None:
    labels = {PLUGIN: PAUSED}
    assert rules(labels=labels) == {"operands-left-paused"}
    assert rules(labels=labels, annotations={"gpufleet.io/paused-operands": PLUGIN}) == set()


def test_evictions_are_left_to_no_controller_unless_we_announced_them() -> None:
    enabled = {ENABLED: "true"}
    assert rules(annotations=enabled) == {"eviction-left-to-no-controller"}
    ours = {"gpufleet-rollout": (ENABLED,)}
    assert rules(annotations=enabled, annotation_managers=ours) == set()


def test_a_cordon_of_a_rollout_is_not_one_of_others() -> None:
    cordoned = msgspec.structs.replace(node(annotations=written(RolloutPhase.CHANGING)), is_cordoned=True)
    wanted = policy(driver={"source": "Image", "image": DIGEST}).driver
    assert wanted is not None
    assert "cordoned-by-others" not in {one.rule for one in judge(case_of(cordoned, wanted))}
    foreign = msgspec.structs.replace(cordoned, stamp=None)
    assert "cordoned-by-others" in {one.rule for one in judge(case_of(foreign, wanted))}


def test_what_is_ours_is_taken_back_when_gpufleet_leaves_and_nothing_of_others() -> None:
    ours = leaving(
        managers={"gpufleet-rollout": (STATE,)}, annotation_managers={"gpufleet-rollout": (ENABLED,)}
    )
    found = leftover(ours)
    assert found is not None
    assert found.words() == (f"label {STATE}", f"annotation {ENABLED}")
    metadata = node_patch(ours, found)["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["labels"], metadata["annotations"]) == ({STATE: None}, {ENABLED: None})
    foreign = {"gpu-operator": (STATE,)}
    assert leftover(leaving(managers=foreign, annotation_managers={"gpu-operator": (ENABLED,)})) is None


def leaving(**managers: Any) -> LeavingNode:
    """A node with both keys as it comes over the wire."""
    made = node_object("n1", labels={STATE: "upgrade-done"}, annotations={ENABLED: "true"}, **managers)
    return msgspec.json.decode(json.dumps(made), type=LeavingNode)


def test_a_key_is_ours_alone_where_nobody_else_wrote_it() -> None:
    both = node(labels={STATE: "upgrade-done"}, managers={"gpufleet-rollout": (STATE,), "kubectl": (STATE,)})
    assert own_keys(both) == frozenset()
