"""A node that turns pods away is left alone for a while, longer each time, and trusted again."""

import pytest

from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.pod import Container, Pod, PodSpec, PodStatus
from gpufleet.model.identifiers import NodeName
from gpufleet.scheduler.node_trust import NodeTrust, rejection

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
