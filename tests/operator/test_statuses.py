"""How far nodes are: phases, their sums, and conditions that change only when something changed."""

import datetime as dt

import pytest

from gpufleet.kube.codec.policy_status import MESSAGE_LENGTH_MAX, NODES_MAX, ReportedNode, policy_status
from gpufleet.kube.objects.fleet_policies import FleetPolicyStatus, NodePolicyStatus
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.operator.assignment import assign
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.phases import NodePhase, Phase
from gpufleet.operator.plan import plan_nodes
from gpufleet.operator.statuses import conditions_of, node_phases, status_of_policy, status_of_unreadable
from tests.operator.builders import DIGEST, node, policy

NOW = dt.datetime(2026, 8, 1, 12, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(minutes=5)
GOLD = {"tier": "gold"}


def phases(
    one: FleetPolicy, *nodes: NodeFacts, beside: tuple[FleetPolicy, ...] = ()
) -> dict[NodeName, NodePhase]:
    facts = {found.name: found for found in nodes}
    plans = {found.node: found for found in plan_nodes(facts, assign((one, *beside), nodes))}
    return node_phases(one, facts, plans)


def phase(one: FleetPolicy, found: NodeFacts, beside: tuple[FleetPolicy, ...] = ()) -> tuple[Phase, str]:
    told = phases(one, found, beside=beside)[found.name]
    return told.phase, told.reason


OURS = node(labels=GOLD, ours=("tier",))
FOREIGN = node(labels={"tier": "tin"}, managers={"kubectl-label": ("tier",)})
MIG = {"nvidia.com/mig.config": "all-1g"}
STATE = "nvidia.com/mig.config.state"
LAID_OUT = ("nvidia.com/mig.config",)


@pytest.mark.parametrize(
    ("asked", "found", "expected"),
    [
        (policy(labels=GOLD), OURS, (Phase.APPLIED, "AsThePolicySays")),
        (policy(labels=GOLD), node(), (Phase.PENDING, "NotWrittenYet")),
        (policy(labels=GOLD), FOREIGN, (Phase.CONFLICT, "ForeignValue")),
        (policy(driver={"source": "Image", "image": DIGEST}), node(), (Phase.NEEDS_ROLLOUT, "RolloutNeeded")),
        (policy(driver={"source": "Host"}), node(), (Phase.NEEDS_PERSON, "HostDriver")),
        (policy(runtime={"mode": "CDI"}), node(), (Phase.NEEDS_PERSON, "HostRuntime")),
        (
            policy(runtime={"mode": "Toolkit", "image": DIGEST}),
            node(),
            (Phase.NEEDS_PERSON, "HostRuntime"),
        ),
        (policy(migLayout="all-1g"), node(labels=MIG, ours=LAID_OUT), (Phase.PENDING, "MigLayoutPending")),
        (
            policy(migLayout="all-1g"),
            node(labels={**MIG, STATE: "success"}, ours=LAID_OUT),
            (Phase.APPLIED, "AsThePolicySays"),
        ),
        (
            policy(migLayout="all-1g"),
            node(labels={**MIG, STATE: "failed"}, ours=LAID_OUT),
            (Phase.FAILED, "MigLayoutFailed"),
        ),
        (
            policy(labels=GOLD),
            node(labels={"gpufleet.io/fleet-policy": "ignore"}),
            (Phase.OPTED_OUT, "OptOutLabel"),
        ),
        (
            policy(driver={"source": "Image", "image": DIGEST}),
            node(labels={"nvidia.com/gpu-driver-upgrade.skip": "true"}),
            (Phase.OPTED_OUT, "DriverSkipLabel"),
        ),
        (
            policy(driver={"source": "Image", "image": DIGEST}),
            node(labels={"nvidia.com/gpu-driver-upgrade.skip": "false"}),
            (Phase.NEEDS_ROLLOUT, "RolloutNeeded"),
        ),
        (
            policy(driver={"source": "Image", "image": DIGEST}, labels=GOLD),
            node(labels={"nvidia.com/gpu-driver-upgrade.skip": "true"}),
            (Phase.PENDING, "NotWrittenYet"),
        ),
    ],
)
def test_the_phase_of_a_node(asked: FleetPolicy, found: NodeFacts, expected: tuple[Phase, str]) -> None:
    assert phase(asked, found) == expected


def test_a_refusal_goes_before_all_else_and_names_both() -> None:
    first, second = policy("first", labels=GOLD), policy("second", labels={"tier": "tin"})
    told = phases(first, node(), beside=(second,))[NodeName("n1")]
    assert (told.phase, told.reason) == (Phase.REFUSED, "Contradiction")
    assert "first and second" in told.message


def test_a_policy_that_only_selects_by_a_label_that_another_writes_is_not_refused() -> None:
    writer = policy("writer", labels={"tier": "tin"})
    reader = policy("reader", select=GOLD, labels={"zone": "a"})
    assert phase(reader, node(labels=GOLD), beside=(writer,)) == (Phase.PENDING, "NotWrittenYet")
    assert phase(writer, node(labels=GOLD), beside=(reader,)) == (Phase.REFUSED, "WritesSelector")


def test_the_worst_nodes_come_first() -> None:
    nodes = (
        node("a", labels=GOLD, ours=("tier",)),
        node("b"),
        node("c", labels={"tier": "tin"}, managers={"x": ("tier",)}),
    )
    assert list(phases(policy(labels=GOLD), *nodes)) == ["c", "b", "a"]


def test_a_driver_that_waits_for_its_rollout_is_named_in_the_condition() -> None:
    ready, progressing, degraded = conditions_of(
        phases(policy(driver={"source": "Image", "image": DIGEST}), node())
    )
    assert (ready.holds, ready.reason) == (False, "RolloutNeeded")
    assert ready.message.endswith("NeedsRollout: n1")
    assert (progressing.holds, degraded.holds) == (False, False)


def test_a_policy_that_selects_no_node_is_ready_and_says_why() -> None:
    ready, _, _ = conditions_of({})
    assert (ready.holds, ready.reason) == (True, "NoNodes")


def told(nodes: dict[NodeName, NodePhase], before: FleetPolicyStatus, now: dt.datetime) -> FleetPolicyStatus:
    return status_of_policy(before, 3, nodes, now)


def test_a_status_has_sums_nodes_and_the_generation_that_it_is_about() -> None:
    found = told(phases(policy(labels=GOLD), OURS, node("n2")), FleetPolicyStatus(), NOW)
    assert (found.observed_generation, found.selected, found.nodes_left_out) == (3, 2, None)
    assert [(one.phase, one.nodes) for one in found.phases] == [("Pending", 1), ("Applied", 1)]
    assert [(one.name, one.phase, one.since) for one in found.nodes] == [
        ("n2", "Pending", "2026-08-01T12:00:00Z"),
        ("n1", "Applied", "2026-08-01T12:00:00Z"),
    ]
    assert {one.observed_generation for one in found.conditions} == {3}


def test_a_status_of_which_nothing_changed_is_equal() -> None:
    nodes = phases(policy(labels=GOLD), OURS, node("n2"))
    before = told(nodes, FleetPolicyStatus(), NOW)
    assert told(nodes, before, LATER) == before


def test_times_change_with_what_they_are_the_time_of() -> None:
    before = told(phases(policy(labels=GOLD), OURS, node("n2")), FleetPolicyStatus(), NOW)
    after = told(phases(policy(labels=GOLD), OURS, node("n2", labels=GOLD, ours=("tier",))), before, LATER)
    since = {one.name: one.since for one in after.nodes}
    assert since == {"n1": "2026-08-01T12:00:00Z", "n2": "2026-08-01T12:05:00Z"}
    changed = {one.type: one.last_transition_time for one in after.conditions}
    assert changed["Ready"] == "2026-08-01T12:05:00Z"
    assert changed["Degraded"] == "2026-08-01T12:00:00Z"


def test_of_a_policy_that_cannot_be_read_no_number_of_nodes_is_told() -> None:
    found = status_of_unreadable(FleetPolicyStatus(), 1, "spec.driver.image: not an image by digest", NOW)
    assert found.selected is None
    assert {one.type: one.status for one in found.conditions} == {
        "Ready": "False",
        "Progressing": "False",
        "Degraded": "True",
    }


def test_a_status_has_room_for_so_many_nodes_and_says_how_many_are_left_out() -> None:
    nodes = [ReportedNode(f"n{number}", "Applied", "x", "m" * 5000) for number in range(NODES_MAX + 5)]
    found = policy_status(FleetPolicyStatus(), (), nodes, (), 1, NOW)
    assert (found.selected, len(found.nodes), found.nodes_left_out) == (NODES_MAX + 5, NODES_MAX, 5)
    assert len(found.nodes[0].message) == MESSAGE_LENGTH_MAX


def test_conditions_of_others_stay() -> None:
    before = FleetPolicyStatus(nodes=(NodePolicyStatus("n1", "Applied"),))
    status = status_of_policy(before, 1, {}, NOW)
    assert [one.type for one in status.conditions] == ["Ready", "Progressing", "Degraded"]
