"""What a plan says of the waves in which a driver would go through nodes."""

from typing import Any

import msgspec
import pytest

from gpufleet.model.identifiers import FleetPolicyName, NodeName
from gpufleet.operator.answer import PassedOver, PlannedRollout
from gpufleet.operator.fleet_state import fleet_state
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.planned_rollouts import planned_rollouts
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding
from tests.operator.builders import DIGEST, OTHER_DIGEST, decoded, node, policy_object

DRIVER = {"source": "Image", "image": DIGEST}
NODE_TIMES = {"drainTimeout": "1h", "changeTimeout": "30m", "validationTimeout": "10m", "soak": "10m"}


def nodes(count: int, **parts: Any) -> list[NodeFacts]:
    """So many ready nodes without a driver of ours."""
    return [node(f"n{number}", **parts) for number in range(count)]


def planned(
    found: list[NodeFacts],
    findings: dict[NodeName, tuple[PreflightFinding, ...]] | None = None,
    **rollout: Any,
) -> list[PlannedRollout]:
    """The rollouts of a policy that brings a driver."""
    written = policy_object(driver=DRIVER, rollout={**NODE_TIMES, **rollout})
    return list(planned_rollouts(fleet_state([decoded(written)], found), findings or {}))


@pytest.mark.parametrize(
    ("count", "rollout", "canaries", "at_once", "waves"),
    [
        (10, {}, 1, 1, 9),
        (10, {"canaries": 2, "maxParallel": 3}, 2, 3, 3),
        (10, {"canaries": 0, "maxParallel": "25%"}, 0, 3, 4),
        (2, {"canaries": 5}, 2, 1, 0),
    ],
)
def test_canaries_go_first_and_the_others_in_waves(
    count: int, rollout: dict[str, Any], canaries: int, at_once: int, waves: int
) -> None:
    (found,) = planned(nodes(count), **rollout)
    assert found.nodes == count
    assert (found.canaries, found.nodes_at_once, found.waves) == (canaries, at_once, waves)


def test_no_node_takes_longer_than_its_deadlines() -> None:
    (found,) = planned(nodes(3))
    hour, minute = 3600, 60
    assert found.node_seconds_most == hour + 40 * minute
    assert found.seconds_most == 3 * (hour + 40 * minute) + 10 * minute


def test_what_has_the_driver_needs_no_rollout() -> None:
    there = {"gpufleet.io/driver-image": DIGEST}
    assert planned(nodes(2, annotations=there)) == []


def test_a_policy_that_takes_the_hosts_driver_has_no_rollout() -> None:
    written = policy_object(driver={"source": "Host"})
    assert not list(planned_rollouts(fleet_state([decoded(written)], nodes(2)), {}))


def test_canaries_that_have_passed_are_not_asked_for_again() -> None:
    stamp = Stamp(FleetPolicyName("all"), DIGEST, OTHER_DIGEST, RolloutPhase.RETURNED, 0, 0, is_canary=True)
    there = {"gpufleet.io/driver-image": DIGEST}
    passed = msgspec.structs.replace(node("canary", annotations=there), stamp=stamp)
    (found,) = planned([passed, *nodes(3)])
    assert (found.nodes, found.canaries, found.waves) == (3, 0, 3)
    assert found.seconds_most == 3 * found.node_seconds_most


def test_nodes_that_could_not_begin_are_named() -> None:
    ready, lost, unknown, closed, blocked = nodes(5)
    finding = PreflightFinding(
        "secure-boot", FindingSeverity.BLOCKS, "its modules are not signed", "sign them"
    )
    (found,) = planned(
        [
            ready,
            msgspec.structs.replace(lost, is_ready=False),
            msgspec.structs.replace(unknown, is_ready=None),
            msgspec.structs.replace(closed, is_cordoned=True),
            blocked,
        ],
        {blocked.name: (finding,)},
    )
    assert found.passed_over == (
        PassedOver("n1", "not ready"),
        PassedOver("n2", "not known to be ready"),
        PassedOver("n3", "cordoned by others"),
        PassedOver("n4", "its modules are not signed"),
    )


def test_windows_and_a_pause_are_told() -> None:
    windows = [{"schedule": "0 22 * * 5", "duration": "8h"}]
    (found,) = planned(nodes(1), windows=windows, paused=True)
    assert (found.windows, found.paused) == (1, True)
