"""What a version of a pod says of its moments, from the stamps that it carries."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube import keys
from gpufleet.kube.codec.grant import write_grant
from gpufleet.ledger.pod_versions import pod_version
from gpufleet.ledger.versions import PodVersion
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.grant import Grant
from gpufleet.model.identifiers import QueueName

SECOND_US = 1_000_000
NOON_US = 1_795_867_200 * SECOND_US
"""2026-11-28T12:00:00Z."""


def at(second: int) -> str:
    """A stamp after noon."""
    return f"2026-11-28T12:{second // 60:02}:{second % 60:02}Z"


def us(second: int) -> int:
    return NOON_US + second * SECOND_US


def read(
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> PodVersion:
    body = {
        "metadata": {
            "name": "a",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": at(0),
            **metadata,
        },
        "spec": {"containers": [{"name": "one"}, {"name": "two"}], "nodeName": "n", **(spec or {})},
        "status": status or {},
    }
    return pod_version(msgspec.json.encode(body))


def scheduled(second: int) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(second)}


def ready(status: str, second: int) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": at(second)}


def container(
    name: str, state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0
) -> dict[str, Any]:
    return {"name": name, "state": state, "lastState": last or {}, "restartCount": restarts}


def running(second: int) -> dict[str, Any]:
    return {"running": {"startedAt": at(second)}}


def terminated(start: int, end: int) -> dict[str, Any]:
    return {"terminated": {"startedAt": at(start), "finishedAt": at(end)}}


def granted(at_us: int) -> dict[str, str]:
    return {keys.GRANT: write_grant(Grant(4, terms=BoundTerms(QueueName("research"), 0, at_us)))}


def test_a_pod_is_held_from_its_binding_and_not_from_its_creation() -> None:
    assert read({"conditions": [scheduled(5)]}).bound_us == us(5)
    assert read({"conditions": [scheduled(5)]}, {"nodeName": ""}).bound_us is None
    # A pod of a kubelet's own files is bound by nothing.
    assert read({"startTime": at(3)}).bound_us == us(3)
    assert read().bound_us == us(0)


@pytest.mark.parametrize("skew_s", [0, 29, -29])
def test_the_microsecond_of_a_grant_counts_where_both_clocks_agree(skew_s: int) -> None:
    told_us = us(5 + skew_s) + 123
    found = read({"conditions": [scheduled(5)]}, annotations=granted(told_us))
    assert (found.bound_us, found.queue, found.epoch) == (told_us, "research", 4)


@pytest.mark.parametrize("skew_s", [31, -31, 3600])
def test_the_clock_of_a_scheduler_that_is_far_off_is_not_believed(skew_s: int) -> None:
    found = read({"conditions": [scheduled(5)]}, annotations=granted(us(5 + skew_s)))
    assert found.bound_us == us(5)


def test_a_grant_that_cannot_be_read_leaves_it_to_the_report_what_is_held() -> None:
    found = read({"conditions": [scheduled(5)]}, annotations={keys.GRANT: "{"})
    assert (found.devices, found.bound_us) == ((), us(5))


def test_it_has_started_when_the_last_container_had_for_the_first_time() -> None:
    one, two = container("one", running(9)), container("two", running(20), terminated(12, 15), restarts=1)
    assert read({"containerStatuses": [one]}).started_us is None
    assert read({"containerStatuses": [one, container("two", {})]}).started_us is None
    assert read({"containerStatuses": [one, two]}).started_us == us(12)


def test_after_several_restarts_it_has_started_and_nothing_tells_when() -> None:
    again = container("one", running(90), terminated(60, 80), restarts=2)
    found = read({"containerStatuses": [again, container("two", running(9))]})
    assert (found.started_us, found.was_started) == (None, True)
    # The other container started later than this one had at the latest.
    found = read({"containerStatuses": [again, container("two", running(70))]})
    assert (found.started_us, found.was_started) == (us(70), True)
    assert not read({"containerStatuses": [again]}).was_started


def test_ready_counts_from_its_turn_and_a_turn_back_says_only_that_it_was() -> None:
    ran = [container("one", running(9)), container("two", running(9))]
    now = read({"containerStatuses": ran, "conditions": [ready("True", 11)]})
    assert (now.ready_us, now.was_ready) == (us(11), True)
    before = read({"containerStatuses": ran, "conditions": [ready("False", 8)]})
    assert (before.ready_us, before.was_ready) == (None, False)
    after = read({"containerStatuses": ran, "conditions": [ready("False", 30)]})
    assert (after.ready_us, after.was_ready) == (None, True)


def test_a_deletion_was_asked_for_before_its_time_to_end() -> None:
    found = read(deletionTimestamp=at(90), deletionGracePeriodSeconds=30)
    assert (found.deletion_us, found.at_us) == (us(60), us(60))


def test_an_end_is_that_of_the_last_container() -> None:
    ended = [container("one", terminated(9, 40)), container("two", terminated(9, 33))]
    assert read({"phase": "Failed", "containerStatuses": ended}).ended_us == us(40)
    assert read({"phase": "Running", "containerStatuses": ended}).ended_us is None
    # A kubelet that turns a pod away starts nothing.
    assert read({"phase": "Failed", "startTime": at(4)}).ended_us == us(4)


def test_an_end_is_neither_that_of_an_earlier_run_nor_of_a_container_that_prepared() -> None:
    """A pod that is evicted while a container waits for its next run, and one that fails in its init."""
    changed = [{"time": at(90)}]
    waits = [container("one", {}, terminated(9, 40)), container("two", terminated(9, 33))]
    found = read({"phase": "Failed", "containerStatuses": waits}, managedFields=changed)
    assert found.ended_us == us(90)
    prepared = [container("init", terminated(3, 8))]
    found = read({"phase": "Failed", "initContainerStatuses": prepared}, managedFields=changed)
    assert found.ended_us == us(90)
    both = [container(name, terminated(9, end)) for name, end in (("one", 40), ("two", 33))]
    found = read(
        {"phase": "Succeeded", "containerStatuses": both, "initContainerStatuses": prepared},
        managedFields=changed,
    )
    assert found.ended_us == us(40)


def test_a_version_is_of_its_latest_stamp() -> None:
    changed = [{"time": at(50)}, {"time": at(70)}]
    assert read({"conditions": [scheduled(5)]}, managedFields=changed).at_us == us(70)


@pytest.mark.parametrize(
    ("kind", "name", "labels", "words"),
    [
        ("Job", "train", {}, "Job/train"),
        ("ReplicaSet", "web-5d4f", {"pod-template-hash": "5d4f"}, "Deployment/web"),
        ("ReplicaSet", "web", {"pod-template-hash": "5d4f"}, "ReplicaSet/web"),
        ("ReplicaSet", "web", {}, "ReplicaSet/web"),
    ],
)
def test_a_pod_belongs_to_what_people_made(kind: str, name: str, labels: dict[str, str], words: str) -> None:
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": "o", "controller": True}
    assert read(ownerReferences=[owner], labels=labels).owner == words
    assert read().owner == ""


def test_what_it_asks_of_the_host_is_what_a_scheduler_reserves() -> None:
    amounts = {"requests": {"cpu": "1500m", "memory": "2Gi"}}
    containers = [{"name": "one", "resources": amounts}, {"name": "two", "resources": amounts}]
    found = read(spec={"containers": containers})
    assert (found.cpu_milli, found.memory_bytes) == (3_000, 4 * 2**30)
