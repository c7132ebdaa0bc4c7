"""A node that turns pods away is left alone for a while, longer each time, and trusted again."""

import pytest

from gpufleet.cluster.nodes.node_trust import OFFERS_MAX, SETTLING_S, WINDOW_S, NodeTrust, rejection
from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.pod import Container, Pod, PodSpec, PodStatus
from gpufleet.model.identifiers import NodeName

NODE = NodeName("gpu-1")


def ended(phase: str, reason: str) -> Pod:
    return Pod(PodMetadata(name="p"), PodSpec((Container("main"),)), PodStatus(phase, reason))


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfmemory", "Outofnvidia.com/gpu", "UnexpectedAdmissionError", "NodeAffinity"]
)
def test_a_kubelets_rejection_is_recognised(reason: str) -> None:
    assert rejection(ended("Failed", reason)) == reason


@pytest.mark.parametrize(
    ("phase", "reason"), [("Failed", "Evicted"), ("Failed", ""), ("Running", "OutOfcpu"), ("Succeeded", "")]
)
def test_another_end_is_no_rejection(phase: str, reason: str) -> None:
    assert rejection(ended(phase, reason)) is None


def test_two_rejections_do_not_cost_a_node_its_trust() -> None:
    trust = NodeTrust()
    assert not trust.reject(NODE, 0.0)
    assert not trust.reject(NODE, 1.0)
    assert not trust.distrusted(NODE, 1.0)


def test_the_third_rejection_within_ten_minutes_does_for_one_minute() -> None:
    trust = NodeTrust()
    trust.reject(NODE, 0.0)
    trust.reject(NODE, 100.0)
    assert trust.reject(NODE, 599.0)
    assert trust.distrusted(NODE, 658.9)
    assert not trust.distrusted(NODE, 659.0)
    assert trust.next_regained_s() == 659.0


def test_rejections_far_apart_do_not_add_up() -> None:
    trust = NodeTrust()
    assert not any(trust.reject(NODE, moment_s) for moment_s in (0.0, 400.0, 800.0, 1200.0))


def test_who_rejects_again_is_left_alone_for_twice_as_long() -> None:
    trust = NodeTrust()
    for moment_s in (0.0, 1.0, 2.0):
        trust.reject(NODE, moment_s)
    assert trust.regained(62.0) == [NODE]
    for moment_s in (63.0, 64.0, 65.0):
        trust.reject(NODE, moment_s)
    assert trust.next_regained_s() == 65.0 + 120.0


def test_trust_regained_is_told_once() -> None:
    trust = NodeTrust()
    for moment_s in (0.0, 1.0, 2.0):
        trust.reject(NODE, moment_s)
    assert trust.regained(61.9) == []
    assert trust.regained(62.0) == [NODE]
    assert trust.regained(62.0) == []
    assert trust.next_regained_s() is None


def test_a_node_that_left_is_forgotten() -> None:
    trust = NodeTrust()
    for moment_s in (0.0, 1.0, 2.0):
        trust.reject(NODE, moment_s)
    trust.forget(NODE)
    assert not trust.distrusted(NODE, 3.0)


def distrusted_at(moment_s: float, since: str = "first") -> NodeTrust:
    """A node whose devices the kubelet knows since ``since``, and which then rejected three pods."""
    trust = NodeTrust()
    trust.offered(NODE, since, 0.0)
    for _ in range(3):
        trust.reject(NODE, moment_s)
    assert trust.distrusted(NODE, moment_s)
    return trust


def test_a_node_whose_devices_are_made_known_anew_is_trusted_at_once() -> None:
    trust = distrusted_at(100.0)
    assert trust.offered(NODE, "second", 104.0)
    assert not trust.distrusted(NODE, 104.0)
    assert trust.next_regained_s() is None
    assert not trust.reject(NODE, 110.0), "those of before do not count any more"


@pytest.mark.parametrize("since", ["first", ""])
def test_a_report_that_says_nothing_new_of_that_forgives_nothing(since: str) -> None:
    trust = distrusted_at(100.0)
    assert not trust.offered(NODE, since, 104.0)
    assert trust.distrusted(NODE, 104.0)


def test_devices_that_were_never_known_before_are_news_too() -> None:
    assert distrusted_at(100.0, since="").offered(NODE, "first", 104.0)


def test_a_rejection_that_is_heard_of_a_little_late_is_of_the_time_before() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "first", 0.0)
    trust.offered(NODE, "second", 104.0)
    assert not any(trust.reject(NODE, 104.1) for _ in range(10))
    assert [trust.reject(NODE, 104.0 + SETTLING_S) for _ in range(3)] == [False, False, True]


def test_an_agent_that_flaps_is_no_excuse() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "0", 0.0)
    moments = [100.0 + 20.0 * number for number in range(OFFERS_MAX + 1)]
    forgiven = []
    for moment_s in moments:
        for _ in range(3):
            trust.reject(NODE, moment_s)
        forgiven.append(trust.offered(NODE, f"at {moment_s}", moment_s + 5.0))
    assert forgiven == [True] * OFFERS_MAX + [False]
    assert trust.distrusted(NODE, moments[-1] + 60.0)
    until_s = moments[-1] + 60.0 * 2**OFFERS_MAX
    assert trust.next_regained_s() == until_s, "each pause is twice as long, forgiven or not"
    trust.regained(until_s)
    for _ in range(3):
        trust.reject(NODE, until_s + WINDOW_S)
    assert trust.offered(NODE, "much later", until_s + WINDOW_S + 5.0)


def test_resources_that_are_made_known_one_after_the_other_are_one_event() -> None:
    trust = NodeTrust()
    trust.offered(NODE, "0", 0.0)
    for number in range(3 * OFFERS_MAX):
        trust.offered(NODE, f"resource {number}", 100.0 + 0.5 * number)
    for _ in range(3):
        trust.reject(NODE, 200.0)
    assert trust.offered(NODE, "again", 210.0)
