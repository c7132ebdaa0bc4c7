"""What is wanted of a gang: as many instances as it lacks, or nothing where it could not start with them."""

import datetime as dt
from typing import Any

import pytest

from gpufleet.engine.node_reasons import cordoned, other_resource
from gpufleet.engine.state.gang_members import Members
from gpufleet.kube.objects.pod import Pod
from gpufleet.model import pod as model
from gpufleet.model.gang import Gang, Slices
from gpufleet.model.identifiers import GangName, NodeName, PodUid, TopologyLevelName
from gpufleet.scheduler.mig_wanted import LackingPod, wanted_instances
from tests.engine.fleet_builder import shape
from tests.kube.wire_objects import decoded

PART = "nvidia.com/mig-2g.20gb"
RACK = TopologyLevelName("rack")


def lacking(
    name: str, gang: str | None = "g", minute: int = 0, has: str = other_resource.REASON.name
) -> LackingPod:
    """A pod that waits for an instance; "has" is what its one node has against it."""
    written: Pod = decoded(
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "creationTimestamp": f"2026-11-29T10:{minute:02}:00Z",
            },
            "spec": {"containers": [{"name": "main", "resources": {"limits": {PART: "1"}}}]},
        },
        Pod,
    )
    meaning = model.Pod(
        PodUid(name), shape(other=((PART, 1),)), gang=None if gang is None else GangName(gang)
    )
    return LackingPod(written, meaning, {NodeName("n"): (has,)})


def gang(waiting: int, minimum: int, placed: int = 0, **more: Any) -> Members:
    """A gang with so many members that wait, and that run."""
    members = Members()
    members.describe(Gang(GangName("g"), minimum, **more))
    for row in range(placed):
        members.place(100 + row, "", ends=False)
    for row in range(waiting):
        members.wait(row, "")
    return members


def wanted(members: Members, *pods: LackingPod, most: int = 64) -> list[tuple[str, str]]:
    return [(one.wanted.asker, one.wanted.group) for one in wanted_instances(pods, lambda _: members, most)]


TWO = (lacking("a"), lacking("b", minute=5))


def test_a_gang_wants_what_it_lacks_together_since_its_last_member_came() -> None:
    found = wanted_instances(TWO, lambda _: gang(waiting=2, minimum=2), 64)
    assert [(one.wanted.asker, one.wanted.group) for one in found] == [("team/a", "g"), ("team/b", "g")]
    assert {one.since for one in found} == {dt.datetime(2026, 11, 29, 10, 5, tzinfo=dt.UTC)}


def test_members_beyond_the_minimum_wait_until_the_gang_runs_and_then_want_each_for_itself() -> None:
    assert wanted(gang(waiting=2, minimum=1), *TWO) == [("team/a", "g")]
    assert wanted(gang(waiting=2, minimum=2, placed=2), *TWO) == [("team/a", ""), ("team/b", "")]


def test_members_without_cards_count_as_placed() -> None:
    assert wanted(gang(waiting=3, minimum=3), *TWO) == [("team/a", "g"), ("team/b", "g")]


@pytest.mark.parametrize(
    "members",
    [
        gang(waiting=2, minimum=3),
        gang(waiting=2, minimum=2, required_level=RACK),
        gang(waiting=2, minimum=2, slices=(Slices(RACK, 1),)),
        gang(waiting=2, minimum=2, role_minimums=(("worker", 1),)),
    ],
    ids=["a member is missing", "one rack", "slices", "no member has the role"],
)
def test_a_gang_that_could_not_start_wants_nothing(members: Members) -> None:
    assert wanted(members, *TWO) == []


def test_a_member_with_no_node_that_instances_would_open_ends_the_wish_of_all() -> None:
    shut = lacking("b", has=cordoned.REASON.name)
    assert wanted(gang(waiting=2, minimum=2), lacking("a"), shut) == []


def test_the_most_pods_of_a_turn_part_no_gang() -> None:
    single = lacking("single", gang=None)
    assert wanted(gang(waiting=2, minimum=2), single, *TWO, most=2) == [("team/single", "")]
