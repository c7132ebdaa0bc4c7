"""What would change on a node, and what stays because it is not ours."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.operator.assignment import assign
from gpufleet.operator.node_facts import NodeFacts, owned_taints, written_taints
from gpufleet.operator.plan import NodePlan, Way, plan_node
from tests.operator.builders import DIGEST, OTHER_DIGEST, TOOLKIT, node, policy

GOLD = {"tier": "gold"}
TAINT = {"key": "gpu-only", "value": "yes", "effect": "NoSchedule"}
PLACE = ("gpu-only", "NoSchedule")


def plan(facts: NodeFacts, *policies: FleetPolicy, takes_back: bool = True) -> NodePlan:
    return plan_node(facts, assign(policies, [facts])[facts.name], takes_back=takes_back)


def told(found: NodePlan) -> list[tuple[str, str | None, str | None]]:
    return [(one.field, one.before, one.after) for one in found.changes]


def test_a_label_that_is_not_there_is_written() -> None:
    found = plan(node(), policy(labels=GOLD))
    assert told(found) == [("label tier", None, "gold")]
    assert found.written is not None
    assert found.written.labels == GOLD


def test_a_label_that_is_there_is_no_change_and_becomes_ours_too() -> None:
    found = plan(node(labels=GOLD, managers={"kubectl-label": ("tier",)}), policy(labels=GOLD))
    assert found.changes == ()
    assert found.written is not None
    assert found.written.labels == GOLD


def test_a_label_of_ours_changes_with_its_policy() -> None:
    found = plan(node(labels={"tier": "tin"}, ours=("tier",)), policy(labels=GOLD))
    assert told(found) == [("label tier", "tin", "gold")]


@pytest.mark.parametrize(
    "managers", [{"kubectl-label": ("tier",)}, {"kubelet": ("tier",), "other": ("tier",)}]
)
def test_a_label_of_another_value_that_others_wrote_is_a_conflict(
    managers: dict[str, tuple[str, ...]],
) -> None:
    found = plan(node(labels={"tier": "tin"}, managers=managers), policy(labels=GOLD))
    assert found.changes == ()
    (conflict,) = found.conflicts
    assert conflict.sentence() == (
        f"label tier is tin, set by {', '.join(sorted(managers))}, and not gold; "
        "remove it there, or in the policy"
    )
    assert found.written is not None
    assert found.written.labels == {}


def test_a_label_that_no_policy_asks_for_any_more_is_taken_back() -> None:
    assert told(plan(node(labels=GOLD, ours=("tier",)))) == [("label tier", "gold", None)]


def test_a_label_that_others_wrote_too_is_left_to_them() -> None:
    found = plan(node(labels=GOLD, ours=("tier",), managers={"kubectl-label": ("tier",)}))
    assert found.changes == ()
    assert found.written is not None
    assert found.written.labels == {}


def test_nothing_is_taken_back_while_policies_are_refused() -> None:
    refused = policy("first", sharingConfig="a"), policy("second", sharingConfig="b")
    found = plan(node(labels=GOLD, ours=("tier",)), *refused)
    assert found.changes == ()
    assert found.written is not None
    assert found.written.labels == GOLD


def test_nothing_is_taken_back_while_a_policy_cannot_be_read() -> None:
    bearing = node(labels=GOLD, ours=("tier",), **with_taint("gpu-only:NoSchedule"))
    found = plan(bearing, takes_back=False)
    assert found.changes == ()
    assert found.written is not None
    assert (found.written.labels, found.written.taints) == (GOLD, {PLACE: "yes"})


def with_taint(owned: str) -> dict[str, Any]:
    return {
        "taints": (("gpu-only", "yes", "NoSchedule"),),
        "annotations": {"gpufleet.io/policy-taints": owned} if owned else {},
    }


def test_a_taint_that_is_not_there_is_written() -> None:
    found = plan(node(), policy(taints=[TAINT]))
    assert told(found) == [("taint gpu-only:NoSchedule", None, "yes")]
    assert found.written is not None
    assert found.written.taints == {PLACE: "yes"}


def test_a_taint_that_others_wrote_counts_and_is_not_ours() -> None:
    found = plan(node(**with_taint("")), policy(taints=[TAINT]))
    assert (found.changes, found.conflicts) == ((), ())
    assert found.written is not None
    assert found.written.taints == {}


def test_a_taint_of_another_value_that_others_wrote_is_a_conflict() -> None:
    found = plan(node(**with_taint("")), policy(taints=[{**TAINT, "value": "no"}]))
    assert found.changes == ()
    assert [one.field for one in found.conflicts] == ["taint gpu-only:NoSchedule"]


def test_a_taint_of_ours_is_taken_back_and_no_other() -> None:
    assert told(plan(node(**with_taint("gpu-only:NoSchedule")))) == [
        ("taint gpu-only:NoSchedule", "yes", None)
    ]
    assert told(plan(node(**with_taint("")))) == []


def test_names_of_configs_are_labels() -> None:
    found = plan(node(), policy(sharingConfig="small", migLayout="all-1g.10gb"))
    assert told(found) == [
        ("label nvidia.com/device-plugin.config", None, "small"),
        ("label nvidia.com/mig.config", None, "all-1g.10gb"),
    ]


def ways(found: Iterable[object]) -> list[object]:
    return [getattr(one, "way", None) for one in found]


def test_a_driver_of_an_image_needs_a_rollout() -> None:
    found = plan(
        node(driver="580.10"), policy(driver={"source": "Image", "image": DIGEST, "version": "595.91.07"})
    )
    assert told(found) == [("driver", "580.10 of the host", f"595.91.07 from {DIGEST} (built, modules auto)")]
    assert ways(found.changes) == [Way.ROLLOUT]


def test_a_driver_of_the_image_that_is_in_place_is_no_change() -> None:
    there = node(annotations={"gpufleet.io/driver-image": DIGEST})
    assert plan(there, policy(driver={"source": "Image", "image": DIGEST})).changes == ()
    assert ways(plan(there, policy(driver={"source": "Image", "image": OTHER_DIGEST})).changes) == [
        Way.ROLLOUT
    ]


def test_a_driver_of_the_host_is_a_persons_to_change() -> None:
    asked = policy(driver={"source": "Host", "version": "595.91.07"})
    assert plan(node(driver="595.91.07"), asked).changes == ()
    assert ways(plan(node(driver="580.10"), asked).changes) == [Way.PERSON]
    unknown = plan(node(), asked)
    assert ways(unknown.changes) == [Way.PERSON]
    assert unknown.changes[0].before is None


ASKS_TOOLKIT = {"mode": "Toolkit", "image": TOOLKIT}


def with_runtime(found: NodeFacts, told: str) -> NodeFacts:
    """A node whose kubelet tells this runtime."""
    system = msgspec.structs.replace(found.system, container_runtime_version=told)
    return msgspec.structs.replace(found, system=system)


@pytest.mark.parametrize(
    ("told", "way"),
    [
        ("containerd://2.1.4", Way.ROLLOUT),
        ("containerd://1.7.27", Way.ROLLOUT),
        ("containerd://2.1.4-k3s1", Way.PERSON),
        ("cri-o://1.33.0", Way.PERSON),
        ("", Way.PERSON),
    ],
)
def test_a_toolkit_comes_by_a_rollout_to_containerd_and_elsewhere_a_person_is_told_why(
    told: str, way: Way
) -> None:
    (change,) = plan(with_runtime(node(), told), policy(runtime=ASKS_TOOLKIT)).changes
    assert change.way is way
    assert ("use CDI" in change.note) == (way is Way.PERSON)


def test_what_a_rollout_brought_and_no_policy_wants_is_a_persons_to_take_away() -> None:
    """A rollout brings one image in place of another, so nothing would ever come of waiting for one."""
    there = {"gpufleet.io/toolkit-image": TOOLKIT, "gpufleet.io/driver-image": DIGEST}
    found = plan(node(annotations=there), policy(runtime={"mode": "CDI"}, driver={"source": "Host"}))
    assert ways(found.changes) == [Way.PERSON, Way.PERSON]
    for change, label in zip(found.changes, ("gpufleet.io/driver", "gpufleet.io/toolkit"), strict=True):
        assert f"take its label {label} " in change.note


@pytest.mark.parametrize(
    ("told", "ways_on"),
    [
        ("containerd://2.1.4", []),
        ("containerd://2.0.0-rc.1", []),
        ("cri-o://1.33.0", []),
        ("containerd://1.7.27", [Way.PERSON]),
        ("docker://28.1.0", [Way.PERSON]),
        ("simulated", [Way.PERSON]),
        ("", [Way.PERSON]),
    ],
)
def test_cdi_is_there_only_where_the_runtime_is_known_to_have_it_on(told: str, ways_on: list[Way]) -> None:
    """containerd has it on from 2.0 (its pull request 9621); what is not known is a person's to look at."""
    assert ways(plan(with_runtime(node(), told), policy(runtime={"mode": "CDI"})).changes) == ways_on


def test_a_label_of_driver_managers_keeps_the_driver_as_it_is_and_nothing_else() -> None:
    skips = {"nvidia.com/gpu-driver-upgrade.skip": "true"}
    found = plan(node(labels=skips), policy(driver={"source": "Image", "image": DIGEST}, labels=GOLD))
    assert (told(found), found.keeps_driver) == ([("label tier", None, "gold")], True)
    there = node(labels=skips, annotations={"gpufleet.io/driver-image": DIGEST})
    assert not plan(there, policy(driver={"source": "Image", "image": DIGEST})).keeps_driver


def test_nothing_is_written_on_a_node_that_opts_out_and_nothing_is_taken_back() -> None:
    out = node(labels={"gpufleet.io/fleet-policy": "ignore", **GOLD}, ours=("tier",))
    found = plan(out, policy(labels={"tier": "tin"}))
    assert (found.opted_out, found.changes, found.written) == (True, (), None)


def test_the_annotation_of_taints_is_read_as_it_is_written() -> None:
    owned = frozenset({("a.example.com/b", "NoExecute"), ("c", "NoSchedule")})
    assert owned_taints(written_taints(owned)) == owned


@pytest.mark.parametrize("text", ["", "a", ":NoSchedule", "a:Never", ",,"])
def test_what_the_annotation_does_not_name_rightly_is_not_ours(text: str) -> None:
    assert owned_taints(text) == frozenset()
