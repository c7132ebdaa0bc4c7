"""What a real API server told of a story becomes the intervals of that story, however it is heard.

``recording`` says what happened and in which order, a second apart; all moments are the server's.
"""

import random
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube import resources
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.interval_log import IntervalLog, encoded
from gpufleet.ledger.node_hour import NodeRecords
from gpufleet.ledger.object_versions import version_of
from gpufleet.ledger.spans import Span
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import Followed, Gone, Listed, Observation, PodVersion, QueueVersion, Sampled
from gpufleet.model.model_errors import InputError
from tests.ledger.recording import lines, observed

LINES = lines()
BY_LINE = [tuple(observed(line)) for line in LINES]
HEARD = [seen for line in BY_LINE for seen in line]
SECOND_US = US_PER_S


def log_of(seen: Iterable[Observation]) -> IntervalLog:
    log = IntervalLog()
    for one in seen:
        log.take(one)
    return log


def node_of(seen: Iterable[Observation]) -> NodeRecords:
    (node,) = log_of(seen).intervals().nodes
    return node


def by_name(seen: Iterable[Observation]) -> dict[str, str]:
    return {pod.uid: pod.name for pod in log_of(seen).intervals().pods}


def test_a_gang_holds_its_cards_from_binding_to_end_and_waits_until_it_is_whole() -> None:
    names = by_name(HEARD)
    held = {names[one.pod_uid]: one for one in node_of(HEARD).holdings}
    first, second, server = held["train-0"], held["train-1"], held["serve-0"]
    assert first.gang_whole_us == second.gang_whole_us == second.span.from_us > first.span.from_us
    assert first.phase(first.span.from_us) is Bucket.WAITING
    assert first.phase(second.span.from_us) is Bucket.STARTING
    assert first.device == server.device != second.device
    assert first.span.until_us is not None
    assert first.span.until_us <= server.span.from_us
    assert second.deletion_us is not None
    assert second.phase(second.deletion_us) is Bucket.ENDING
    assert server.started_us is not None
    assert server.phase(server.started_us) is Bucket.LOADING
    assert all(one.seen_until_us is None for one in held.values())


def test_a_binding_has_the_microsecond_of_the_grant_and_ends_have_the_second_of_the_server() -> None:
    held = node_of(HEARD).holdings
    assert any(one.span.from_us % SECOND_US for one in held)
    (ended,) = {seen.ended_us for seen in HEARD if isinstance(seen, PodVersion)} - {None}
    assert ended in {one.span.until_us for one in held}


def test_the_states_of_what_is_free_begin_when_the_server_saw_them() -> None:
    node = node_of(HEARD)
    states = {one.bucket: one for one in node.free_states}
    assert states.keys() == {Bucket.DRAINING, Bucket.OUT, Bucket.RESERVED}
    assert states[Bucket.OUT].device == states[Bucket.RESERVED].device
    assert states[Bucket.RESERVED].reason == "research"
    assert states[Bucket.DRAINING].device is None
    assert {one.span.until_us for one in node.free_states} == {node.span.until_us}


def test_whose_a_pod_is_follows_from_its_grant_its_labels_and_its_owner() -> None:
    pods = {pod.name: pod for pod in log_of(HEARD).intervals().pods}
    train = pods["train-0"]
    assert (train.queue, train.gang, train.owner) == ("research", "train", "ConfigMap/run")
    assert train.labels == (("team", "vision"),)
    assert pods["serve-0"].gang == ""


def test_a_node_is_priced_by_its_labels_and_its_host_is_held_in_part() -> None:
    node = node_of(HEARD)
    assert (node.priced_as.gpu_model, node.priced_as.capacity_type) == ("H100-80GB", "on-demand")
    assert len(node.host_holdings) == 3
    assert all(0 < one.part < 1 for one in node.host_holdings)
    assert node.unseen == ()


@pytest.mark.parametrize("seed", range(20))
def test_the_same_lines_in_any_order_doubled_and_by_two_readers_give_the_same_bytes(seed: int) -> None:
    draw = random.Random(seed)
    heard = [*BY_LINE, *draw.choices(BY_LINE, k=20)]
    draw.shuffle(heard)
    first, second = IntervalLog(), IntervalLog()
    for line in heard:
        for log in draw.choice([(first,), (second,), (first, second)]):
            for seen in line:
                log.take(seen)
    first.merge(second)
    assert encoded(first.intervals()) == encoded(log_of(HEARD).intervals())


def test_a_reader_that_heard_a_deletion_later_changes_nothing() -> None:
    late = [
        msgspec.structs.replace(one, heard_us=one.heard_us + 60 * SECOND_US)
        for one in LINES
        if one.type == "DELETED"
    ]
    both = [*HEARD, *(seen for line in late for seen in observed(line))]
    assert encoded(log_of(both).intervals()) == encoded(log_of(HEARD).intervals())


def test_a_list_after_a_gap_ends_what_is_gone_and_the_time_between_is_an_estimate() -> None:
    """The reader hears nothing of ends and deletions, and lists no pods afterwards."""
    bound = [
        seen
        for seen in HEARD
        if not isinstance(seen, Gone | Followed | Sampled)
        and not (isinstance(seen, PodVersion) and (seen.ended_us or seen.deletion_us))
    ]
    newest = max(seen.number for seen in bound)
    heard_us = max(line.heard_us for line in LINES)
    (pods,) = (line for line in LINES if line.type == "LISTED" and line.kind == "Pod")
    empty = msgspec.structs.replace(pods, number=newest + 1, heard_us=heard_us, uids=())
    node = node_of([*bound, *observed(empty)])
    assert len(node.holdings) == 3
    for one in node.holdings:
        assert one.seen_until_us is not None
        assert one.span.until_us is not None
        assert one.phase(one.span.until_us - 1) is Bucket.UNMEASURED
    assert node.unseen == (Span(node.span.from_us),)


@given(st.sets(st.sampled_from(range(len(LINES)))))
def test_whatever_is_lost_no_pod_is_held_outside_of_its_time(lost: set[int]) -> None:
    seen = [one for number, line in enumerate(BY_LINE) if number not in lost for one in line]
    true = {one.pod_uid: one for one in node_of(HEARD).holdings}
    for node in log_of(seen).intervals().nodes:
        for one in node.holdings:
            assert one.device == true[one.pod_uid].device
            assert one.span.from_us >= true[one.pod_uid].span.from_us // SECOND_US * SECOND_US


def test_a_queue_that_keeps_no_place_says_so_by_its_next_version() -> None:
    versions = [seen for seen in HEARD if isinstance(seen, QueueVersion)]
    assert [len(one.places) for one in versions] == [0, 1]


def test_a_list_of_pods_has_those_that_had_not_ended() -> None:
    assert [one.uids for one in HEARD if isinstance(one, Listed)] == [frozenset()] * 4


def written(version: str, containers: list[object]) -> bytes:
    metadata = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": containers}})


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{}", "a Pod that cannot be read"),
        (b"[", "a Pod that cannot be read"),
        (written("x", []), "Pod team/a: a Pod that cannot be read"),
        (written("1", [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]), "team/a"),
    ],
)
def test_an_object_that_cannot_be_read_is_named(raw: bytes, words: str) -> None:
    with pytest.raises(InputError) as refused:
        version_of(resources.PODS, raw)
    assert words in str(refused.value)


def test_the_recording_has_every_kind() -> None:
    assert {line.kind for line in LINES} == {"Pod", "Node", "NodeDevices", "FleetQueue"}
