"""Which option is chosen: what starts work whole, the cheapest of it, and never twice."""

import time

import pytest
from msgspec.structs import replace

from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.expander.answering import Answering
from gpufleet.expander.choice import Outcome
from gpufleet.expander.judgement import Seen
from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.expander.protocol.question import OfferedPod, Option, read_question
from gpufleet.expander.template_nodes import template_of
from gpufleet.kube.codec.chosen_nodes import NodesComing, Postponed
from gpufleet.kube.objects.node import Taint
from gpufleet.kube.resources import NODE_DEVICES, NODES
from gpufleet.model.identifiers import PodUid
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.expander.offers import CATALOGUE, POOL, answered, gang, group_node, groups, option


def a_fleet() -> Fleet:
    """One node of four H100s."""
    fleet = Fleet()
    fleet.node("gpu-1")
    return fleet


def test_nodes_for_a_whole_gang_are_chosen() -> None:
    fleet = a_fleet()
    offer = option("h100", 2, *gang(fleet, "train", 2))
    answer = answered(fleet, offer)
    assert (answer.choice.outcome, groups(answer, offer)) == (Outcome.CHOSEN, ["h100"])


def test_nodes_for_half_a_gang_are_vetoed() -> None:
    """The group may grow by one node only, and the gang needs two."""
    fleet = a_fleet()
    first, _ = gang(fleet, "train", 2)
    assert answered(fleet, option("h100", 1, first)).choice.outcome is Outcome.VETOED


def test_room_that_is_there_counts() -> None:
    """Of two members with four GPUs each one fits the node of today."""
    fleet = a_fleet()
    _, second = gang(fleet, "train", 2, gpus=4)
    answer = answered(fleet, option("h100", 1, second, gpus=4))
    assert answer.choice.outcome is Outcome.CHOSEN


def test_work_beyond_its_quota_buys_nothing() -> None:
    fleet = a_fleet()
    fleet.queue("team", gpu=8)
    offer = option("h100", 2, *gang(fleet, "train", 2, queue="team"))
    assert answered(fleet, offer).choice.outcome is Outcome.VETOED


def test_what_starts_by_itself_buys_nothing() -> None:
    fleet = a_fleet()
    fleet.pod("small", gpus=1)
    assert answered(fleet, option("h100", 1, "small")).choice.outcome is Outcome.VETOED


def test_the_cheapest_for_the_gpus_that_work_is_chosen() -> None:
    """Eight pods of one GPU: one node for 50, or eight for 7 each; for two pods it is two for 7 each."""
    fleet = Fleet()
    names = [f"p{number}" for number in range(8)]
    for name in names:
        fleet.pod(name, gpus=1)
    large = option("large", 1, *names, gpus=8, instance_type="eight")
    small = option("small", 8, *names, gpus=1, instance_type="one")
    assert groups(answered(fleet, small, large), small, large) == ["large"]
    few = Fleet()
    for name in names[:2]:
        few.pod(name, gpus=1)
    small = option("small", 2, *names[:2], gpus=1, instance_type="one")
    assert groups(answered(few, large, small), large, small) == ["small"]


def test_without_prices_the_fewest_gpus_are_bought() -> None:
    fleet = Fleet()
    fleet.pod("p", gpus=3)
    large, near = option("large", 1, "p", gpus=8), option("near", 1, "p", gpus=4)
    assert groups(answered(fleet, large, near), large, near) == ["near"]


def two_groups() -> tuple[Fleet, tuple[str, ...], tuple[str, ...]]:
    """A gang whose leader needs another group than its workers."""
    fleet = a_fleet()
    leader = gang(fleet, "train", 3, nodeSelector={POOL: "a"})[:1]
    for name in ("train-1", "train-2"):
        fleet.pod(name, gpus=8, job="train", gang=3, nodeSelector={POOL: "b"})
    return fleet, leader, ("train-1", "train-2")


def test_a_gang_that_needs_two_groups_gets_both_one_after_the_other() -> None:
    fleet, leader, workers = two_groups()
    answering = Answering(CATALOGUE)
    first, second = option("a", 1, *leader), option("b", 2, *workers)
    answer = answered(fleet, first, second, answering=answering)
    assert groups(answer, first, second) == ["a"]
    # The autoscaler counts the coming node, and offers the others alone.
    answer = answered(fleet, second, answering=answering, after_s=10)
    assert (groups(answer, second), answer.coming_nodes) == (["b"], 1)


def test_what_was_not_sent_is_not_on_its_way() -> None:
    fleet, leader, workers = two_groups()
    answering = Answering(CATALOGUE)
    first, second = option("a", 1, *leader), option("b", 2, *workers)
    seen = Seen(fleet.picture, Settings(identity="test"), AT)
    assert answering.answer(seen, (first, second), time.monotonic() + 3600).choice.options == (0,)
    assert answered(fleet, second, answering=answering).choice.outcome is Outcome.VETOED


def test_a_group_without_its_other_is_half_a_gang() -> None:
    fleet, _, workers = two_groups()
    assert answered(fleet, option("b", 2, *workers)).choice.outcome is Outcome.VETOED


def test_a_group_that_such_a_gang_does_not_need_is_not_chosen() -> None:
    fleet, leader, workers = two_groups()
    more = [option("c", 1, *leader, *workers), option("a", 1, *leader), option("b", 2, *workers)]
    assert groups(answered(fleet, *more), *more) == ["a"]


def chosen_once() -> tuple[Fleet, Answering, tuple[str, ...]]:
    """A gang of two for which nodes were chosen, and another that waits beside it."""
    fleet, answering = a_fleet(), Answering(CATALOGUE)
    names = gang(fleet, "train", 2)
    answer = answered(fleet, option("h100", 2, *names), answering=answering)
    assert answer.choice.outcome is Outcome.CHOSEN
    return fleet, answering, names


def test_nodes_that_are_coming_are_not_bought_again() -> None:
    """Two are on their way for the first gang, and one more would be half of what the second needs."""
    fleet, answering, _ = chosen_once()
    late = gang(fleet, "later", 2)
    answer = answered(fleet, option("h100", 1, late[0]), answering=answering, after_s=10)
    assert (answer.choice.options, answer.coming_nodes) == ((), 2)


def test_what_the_autoscaler_has_given_up_is_bought_anew() -> None:
    fleet, answering, names = chosen_once()
    answer = answered(fleet, option("h100", 2, *names), answering=answering, after_s=60)
    assert (answer.choice.outcome, answer.coming_nodes) == (Outcome.CHOSEN, 0)


def test_one_node_of_two_that_failed_is_bought_anew() -> None:
    fleet, answering, names = chosen_once()
    answer = answered(fleet, option("h100", 1, names[0]), answering=answering, after_s=60)
    assert (answer.choice.outcome, answer.coming_nodes) == (Outcome.CHOSEN, 1)


def test_after_fifteen_minutes_nothing_is_coming() -> None:
    fleet, answering, _ = chosen_once()
    fleet.pod("other", gpus=8)
    answer = answered(fleet, option("h100", 1, "other"), answering=answering, after_s=15 * 60 + 1)
    assert answer.coming_nodes == 0


def two_gangs_for_five_nodes() -> tuple[Fleet, Option]:
    """Gangs of three and of four nodes' size, for a group that may have five."""
    fleet = a_fleet()
    first, second = gang(fleet, "first", 3), gang(fleet, "second", 4)
    return fleet, option("h100", 5, *first, *second[:2])


def test_a_gang_that_starts_with_none_of_the_nodes_is_postponed_before_any_is_bought() -> None:
    fleet, offer = two_gangs_for_five_nodes()
    answer = answered(fleet, offer)
    assert (answer.choice.outcome, answer.choice.options) == (Outcome.POSTPONED, ())
    names = {pod.metadata.name for pod, decision in answer.decisions if isinstance(decision, Postponed)}
    assert names == {f"second-{number}" for number in range(4)}


def test_nodes_that_were_chosen_are_kept_for_the_gang_for_fifteen_minutes() -> None:
    fleet = a_fleet()
    answer = answered(fleet, option("h100", 2, *gang(fleet, "train", 2)))
    at_us = engine_time_us(AT)
    expected = NodesComing("h100", at_us, at_us + 15 * 60_000_000)
    found = {pod.metadata.name: decision for pod, decision in answer.decisions}
    assert found == {"train-0": expected, "train-1": expected}


@pytest.mark.parametrize(
    ("gpus", "taints", "coming"),
    [
        (8, [], 1),
        (0, [], 2),
        (8, [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], 2),
        (8, [{"key": "example.com/soft", "effect": "PreferNoSchedule"}], 1),
    ],
    ids=["set up", "no GPU counted yet", "not ready", "a taint that bars nothing"],
)
def test_a_node_that_joined_is_coming_until_it_is_set_up(
    gpus: int, taints: list[dict[str, str]], coming: int
) -> None:
    fleet, answering, _ = chosen_once()
    fleet.node("new-1", gpus=gpus, labels={POOL: "h100"}, taints=taints)
    node = fleet.picture.find(NODES, "new-1")
    assert node is not None
    at = replace(node.metadata, creation_timestamp="2026-03-01T12:03:00Z")
    fleet.picture.objects[NODES]["", "new-1"] = replace(node, metadata=at)
    fleet.pod("other", gpus=8)
    answer = answered(fleet, option("h100", 1, "other"), answering=answering, after_s=300)
    assert answer.coming_nodes == coming


def test_pods_of_other_schedulers_are_left_to_the_autoscaler() -> None:
    fleet = a_fleet()
    first, _ = gang(fleet, "train", 2)
    half = option("h100", 1, first)
    others = option("cpu", 1, "web", gpus=0, scheduler="default-scheduler")
    answer = answered(fleet, half, others)
    assert (answer.choice.outcome, groups(answer, half, others)) == (Outcome.LEFT, ["cpu"])


def test_pods_that_stand_for_a_request_or_a_buffer_are_left_to_the_autoscaler() -> None:
    pods = tuple(OfferedPod(PodUid(f"default/r-0-{at}"), "gpufleet", is_virtual=True) for at in range(2))
    fleet = a_fleet()
    half = option("h100", 1, gang(fleet, "train", 2)[0])
    pods = tuple(
        OfferedPod(PodUid(f"default/request-0-{at}"), "gpufleet", is_virtual=True) for at in range(2)
    )
    request = replace(option("a100", 2), pods=pods)
    answer = answered(fleet, half, request)
    assert (answer.choice.outcome, groups(answer, half, request)) == (Outcome.LEFT, ["a100"])
    assert answered(fleet, request).choice.outcome is Outcome.LEFT


@pytest.mark.parametrize(
    ("kind", "is_virtual"),
    [("ProvisioningRequest", True), ("CapacityBuffer", True), ("Job", False)],
)
def test_such_pods_are_known_by_their_owner(kind: str, is_virtual: bool) -> None:
    owner = api.OwnerReference(kind=kind)
    pod = api.Pod(metadata=api.ObjectMeta(uid="u", owner_references=[owner]))
    packed = api.Option(node_group_id="g", node_count=1, pod_bytes=[pod.SerializeToString()])
    template = api.Node(metadata=api.ObjectMeta(name="n"))
    (found,) = read_question(api.BestOptionsRequest(options=[packed], node_map={"g": template}))
    assert [one.is_virtual for one in found.pods] == [is_virtual]


def test_a_new_node_has_the_gpus_that_the_group_reports() -> None:
    fleet = a_fleet()
    fleet.node("gpu-2", gpus=8, labels={POOL: "h100"})
    assert template_of(group_node("h100", gpus=8), fleet.picture).devices == fleet.picture.find(
        NODE_DEVICES, "gpu-2"
    )
    assert template_of(group_node("other", gpus=8), fleet.picture).devices is None


def test_a_taint_that_a_node_loses_at_its_start_bars_nothing() -> None:
    fleet = a_fleet()
    offer = option("h100", 1, *gang(fleet, "train", 1))
    startup = Taint("startup-taint.cluster-autoscaler.kubernetes.io/gpu", "NoSchedule")
    lasting = Taint("example.com/team", "NoSchedule")
    for taints, outcome in (((startup,), Outcome.CHOSEN), ((lasting,), Outcome.VETOED)):
        node = replace(offer.node, spec=replace(offer.node.spec, taints=taints))
        assert answered(fleet, replace(offer, node=node)).choice.outcome is outcome
