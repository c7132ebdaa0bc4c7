"""The step of a rollout over cases of NVIDIA's k8s-operator-libs: the same states, or a reason why not."""

from typing import Any

import pytest

from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.rollout_settings import NodeCount
from gpufleet.operator.rollout.actions import Action, SetDriver, WriteNode
from gpufleet.operator.rollout.node_step import node_step
from gpufleet.operator.rollout.observed import Check, Drain, RolloutNode
from gpufleet.operator.rollout.rollout_step import RolloutInput, rollout_step
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, RolloutState, Stamp
from gpufleet.operator.upgrade_protocol import STATES
from tests.operator.rollout.fleet import NEW, OLD, POLICY, QUICK, START_US, with_settings
from tests.published_cases import expected, name_of, published_cases

CASES = published_cases(__file__, "operator_libs")
NODES = CASES["nodes"]
FLEETS = CASES["fleets"]


def observed(case: dict[str, Any]) -> RolloutNode:
    """The node of a case: cordoned, by the rollout unless others did."""
    is_ours = not case.get("is_foreign_cordon", False)
    deadline_us = START_US - 1 if case.get("is_late") else START_US + 60_000_000
    previous = OLD if case.get("has_previous") else ""
    stamp = Stamp(
        POLICY, NEW, previous, RolloutPhase(case["phase"]), START_US, deadline_us, is_cordon_ours=is_ours
    )
    holders = tuple(PodUid(one) for one in case.get("holders", ()))
    return RolloutNode(
        NodeName("n"),
        NEW if case.get("is_new") else OLD,
        stamp,
        is_ready=True,
        is_cordoned=True,
        runs=case.get("runs"),
        drain=Drain(holders, due=holders),
        check=Check(case.get("check", "absent")),
    )


@pytest.mark.parametrize("case", NODES, ids=name_of)
def test_a_node_goes_on_as_in_their_case(case: dict[str, Any]) -> None:
    node = observed(case)
    found = node_step(node, QUICK, START_US)
    writes = [one for one in found.actions if isinstance(one, WriteNode)]
    stamp = writes[-1].stamp if writes else node.stamp
    assert stamp is not None
    assert STATES[stamp.phase] == expected(case)
    if case.get("is_foreign_cordon"):
        assert [one.cordon for one in writes if one.cordon is False] == []


def test_a_driver_that_is_up_to_date_is_not_set_again() -> None:
    (case,) = (one for one in NODES if "not started anew" in one["case"])
    actions: tuple[Action, ...] = node_step(observed(case), QUICK, START_US).actions
    assert not any(isinstance(one, SetDriver) for one in actions)


@pytest.mark.parametrize("case", FLEETS, ids=name_of)
def test_as_many_nodes_begin_as_in_their_case(case: dict[str, Any]) -> None:
    at_once = NodeCount(int(case["at_once"].removesuffix("%")), is_percent=case["at_once"].endswith("%"))
    changing = Stamp(
        POLICY, NEW, OLD, RolloutPhase.CHANGING, START_US, START_US + 60_000_000, is_cordon_ours=True
    )
    kinds = {
        "fresh": {"image": OLD},
        "cordoned": {"image": OLD, "is_cordoned": True},
        "under_way": {"image": NEW, "is_cordoned": True, "stamp": changing},
        "done": {"image": NEW, "runs": True},
        "done_cordoned": {"image": NEW, "runs": True, "is_cordoned": True},
    }
    nodes = tuple(
        RolloutNode(NodeName(f"{kind}-{number}"), is_ready=True, **facts)  # type: ignore[arg-type]
        for kind, facts in kinds.items()
        for number in range(case.get(kind, 0))
    )
    progress = Progress(NEW, RolloutState.ROLLING, START_US)
    settings = with_settings(canaries=0, nodes_at_once=at_once)
    found = rollout_step(RolloutInput(POLICY, NEW, settings, nodes, START_US, progress))
    begun = [
        one.node
        for one in found.actions
        if isinstance(one, WriteNode) and one.stamp is not None and one.stamp.phase is RolloutPhase.CORDONED
    ]
    assert len(begun) == expected(case)
