"""Nodes that the real Karpenter buys for our scheduler's work, and gives back."""

from collections.abc import Iterator

import pytest

from tests.karpenter.real_karpenter import CLAIMS, DO_NOT_DISRUPT, GOES_S, TYPES, Fleet, pods, running_fleet
from tests.waiting import until

MERGE = "application/merge-patch+json"
TRAIN = ("train-0", "train-1", "train-2")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("karpenter")) as its:
        yield its


@pytest.fixture
def fleet(running: Fleet) -> Fleet:
    # Before and not after: the last test's nodes go with the cluster.
    running.emptied()
    running.may_buy(*TYPES)
    return running


def test_a_gang_from_zero_nodes_gets_one_node_for_each_member_and_they_go_with_it(fleet: Fleet) -> None:
    for name in TRAIN:
        fleet.pod(name, gpus=8, gang=3)
    fleet.until_run(*TRAIN)
    assert fleet.types() == ["gpu-8x"] * 3
    assert len(fleet.claims()) == 3
    for name in TRAIN:
        assert fleet.found(name)["metadata"]["annotations"][DO_NOT_DISRUPT] == "true"
    fleet.emptied()


def test_work_that_waits_for_members_or_for_quota_buys_nothing(fleet: Fleet) -> None:
    fleet.pod("alone", gpus=8, gang=2)
    fleet.pod("never", gpus=8, namespace="small")
    fleet.until_waits("WaitingForGang", "alone")
    fleet.until_waits("NeverFits", "never", "small")
    fleet.pod("first", gpus=4, namespace="small")
    fleet.until_run("first", namespace="small")
    fleet.pod("second", gpus=4, namespace="small")
    fleet.until_waits("WaitingForQuota", "second", "small")
    # Karpenter buys for all pods together for which it would: with this one it would have bought for those.
    fleet.pod("last", gpus=4)
    fleet.until_run("last")
    assert fleet.types() == ["gpu-4x"] * 2
    assert len(fleet.claims()) == 2


def test_of_two_gangs_that_are_within_quota_only_one_by_one_one_gets_nodes(fleet: Fleet) -> None:
    # The quota of 24 GPUs has room for each: 16 of one and 16 of the other.
    for gang in ("one", "other"):
        for member in range(2):
            fleet.pod(f"{gang}-{member}", gpus=8, gang=2, of=gang)
    fleet.until_run("one-0", "one-1")
    fleet.until_waits("WaitingForQuota", "other-0")
    assert fleet.types() == ["gpu-8x"] * 2
    assert len(fleet.claims()) == 2
    fleet.api.request("DELETE", f"{pods('default')}/one-0")
    fleet.api.request("DELETE", f"{pods('default')}/one-1")
    fleet.until_run("other-0", "other-1")
    assert fleet.types() == ["gpu-8x"] * 2


def test_half_a_gang_is_not_bought_where_the_limit_of_the_pool_allows_no_more(fleet: Fleet) -> None:
    # Karpenter itself would buy two nodes for the three members.
    fleet.may_buy("gpu-8x", gpus_max=16)
    for name in TRAIN:
        fleet.pod(name, gpus=8, gang=3)
    for name in TRAIN:
        fleet.until_waits("WaitingForNodeLimits", name)
    # Karpenter buys for all pods together for which it would: with this one it would have bought for those.
    fleet.pod("last", gpus=4, namespace="small")
    fleet.until_run("last", namespace="small")
    assert len(fleet.claims()) == 1
    # One node is there and three more are needed: 8 GPUs and 24.
    fleet.may_buy("gpu-8x", gpus_max=32)
    fleet.until_run(*TRAIN)
    assert fleet.types() == ["gpu-8x"] * 4


def test_a_gang_on_a_node_that_goes_away_leaves_whole_and_comes_back_whole(fleet: Fleet) -> None:
    for name in TRAIN:
        fleet.pod(name, gpus=8, gang=3)
    fleet.until_run(*TRAIN)
    for name in TRAIN:
        # No controller makes these pods again, so they end only where their owner allows it.
        allowed = {"metadata": {"annotations": {"gpufleet.io/delete-incomplete-gang": "true"}}}
        fleet.api.call("PATCH", f"{pods('default')}/{name}", allowed, MERGE)
    before = fleet.claims()
    # As Karpenter itself does on a notice of interruption.
    fleet.api.request("DELETE", f"{CLAIMS}/{before[0]}")
    until(lambda: not fleet.left(*TRAIN), 60, f"members stay: {fleet.left(*TRAIN)}")
    again = [f"{name}-again" for name in TRAIN]
    for name in again:
        fleet.pod(name, gpus=8, gang=3)
    fleet.until_run(*again)
    # Karpenter takes a while to end a node of which all pods are gone.
    until(lambda: before[0] not in fleet.claims(), GOES_S, f"{before[0]} stays: {fleet.story()}")
    until(lambda: fleet.types() == ["gpu-8x"] * 3, GOES_S, f"three are needed, and there are {fleet.types()}")


def test_a_gang_on_half_a_node_is_left_there_and_without_its_annotation_it_would_not_be(fleet: Fleet) -> None:
    fleet.may_buy("gpu-8x")
    for name in TRAIN[:2]:
        fleet.pod(name, gpus=2, gang=2)
    fleet.until_run(*TRAIN[:2])
    (claim,) = fleet.claims()
    # The gang would do with the cheaper type.
    fleet.may_buy(*TYPES)
    until(lambda: fleet.blocked(claim), GOES_S, f"Karpenter says nothing of {claim}: {fleet.story()}")
    assert fleet.claims() == [claim]
    assert [fleet.found(name)["status"]["phase"] for name in TRAIN[:2]] == ["Running"] * 2
    for name in TRAIN[:2]:
        bare = {"metadata": {"annotations": {DO_NOT_DISRUPT: None}}}
        fleet.api.call("PATCH", f"{pods('default')}/{name}", bare, MERGE)
    until(lambda: claim not in fleet.claims(), GOES_S, f"{claim} stays: {fleet.story()}")
