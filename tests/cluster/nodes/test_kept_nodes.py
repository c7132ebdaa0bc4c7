"""Nodes that join for chosen work are that work's until it runs or its time is over."""

import datetime as dt

import pytest
from msgspec.structs import replace

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.kube.codec.chosen_nodes import NodesComing, write_chosen_nodes
from gpufleet.kube.objects.pod import NODES_CHOSEN, PodCondition
from gpufleet.kube.resources import NODES, PODS
from gpufleet.model.identifiers import PodUid
from gpufleet.whatif.course import Course
from tests.cluster.snapshots.small_snapshots import AT, Fleet

POOL = "cloud.google.com/gke-nodepool"
MINUTE = dt.timedelta(minutes=1)


def joined(fleet: Fleet, name: str, pool: str, at: dt.datetime) -> None:
    """A node of eight GPUs that joined then."""
    fleet.node(name, gpus=8, labels={POOL: pool})
    nodes = fleet.picture.objects[NODES]
    node = nodes["", name]
    nodes["", name] = replace(node, metadata=replace(node.metadata, creation_timestamp=at.isoformat()))


def chosen(fleet: Fleet, *names: str, minutes: int = 15) -> None:
    """Nodes of the pool h100 are on their way for these pods since AT."""
    until_us = engine_time_us(AT + minutes * MINUTE)
    said = write_chosen_nodes(NodesComing("h100", engine_time_us(AT), until_us))
    pods = fleet.picture.objects[PODS]
    for name in names:
        pod = pods["default", name]
        conditions = (PodCondition(NODES_CHOSEN, *said),)
        pods["default", name] = replace(pod, status=replace(pod.status, conditions=conditions))


def starts(fleet: Fleet, after: dt.timedelta) -> list[str]:
    """The pods that the scheduler starts so long after AT."""
    at = AT + after
    facts = Facts(fleet.picture.copied(), Settings(identity="test"), Moment(at))
    course = Course(facts, engine_time_us(at), 0)
    names = ("train-0", "train-1", "other")
    return [name for name in names if course.start_of(PodUid(f"uid-of-{name}"))]


def a_gang_and_another() -> Fleet:
    """A gang of two nodes' size for which nodes were chosen, and a pod that would fill the first of them."""
    fleet = Fleet()
    for name in ("train-0", "train-1"):
        fleet.pod(name, gpus=8, job="train", gang=2)
    fleet.pod("other", gpus=8)
    chosen(fleet, "train-0", "train-1")
    return fleet


def test_the_first_node_waits_for_the_second_and_other_work_does_not_take_it() -> None:
    fleet = a_gang_and_another()
    joined(fleet, "new-1", "h100", AT + 3 * MINUTE)
    assert starts(fleet, 4 * MINUTE) == []
    joined(fleet, "new-2", "h100", AT + 9 * MINUTE)
    assert starts(fleet, 10 * MINUTE) == ["train-0", "train-1"]


@pytest.mark.parametrize(
    ("pool", "joined_after", "asked_after"),
    [
        ("h100", -1 * MINUTE, 4 * MINUTE),
        ("other-pool", 3 * MINUTE, 4 * MINUTE),
        ("h100", 3 * MINUTE, 15 * MINUTE),
    ],
    ids=["there before", "of another pool", "after 15 minutes"],
)
def test_other_nodes_are_kept_for_nobody(
    pool: str, joined_after: dt.timedelta, asked_after: dt.timedelta
) -> None:
    fleet = a_gang_and_another()
    joined(fleet, "new-1", pool, AT + joined_after)
    assert starts(fleet, asked_after) == ["other"]


def test_no_condition_keeps_nodes_for_longer() -> None:
    """Whoever writes a later end keeps nothing."""
    fleet = a_gang_and_another()
    chosen(fleet, "train-0", "train-1", minutes=60)
    joined(fleet, "new-1", "h100", AT + 3 * MINUTE)
    assert starts(fleet, 4 * MINUTE) == ["other"]


def test_a_node_is_everybodys_once_the_work_runs() -> None:
    fleet = Fleet()
    fleet.pod("other", gpus=8)
    joined(fleet, "new-1", "h100", AT + 3 * MINUTE)
    joined(fleet, "new-2", "h100", AT + 3 * MINUTE)
    fleet.pod("train-0", gpus=8, node="new-1")
    chosen(fleet, "train-0")
    assert starts(fleet, 4 * MINUTE) == ["other"]
