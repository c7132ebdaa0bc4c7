"""What was seen of pods is unpacked as it was packed, and intervals do not depend on packing."""

import random

import pytest

from gpufleet.ledger import packed_pods
from gpufleet.ledger.interval_log import IntervalLog, encoded
from gpufleet.ledger.packed_pods import PackedPods
from gpufleet.ledger.versions import Gone, ObjectKind, Observation, PodVersion
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName

PODS = [PodUid(f"pod-{number}") for number in range(12)]
FEW = 3
"""So many pods are kept unpacked in these tests."""


@pytest.fixture(autouse=True)
def _few_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_pods, "UNPACKED_MAX", FEW)


def version(draw: random.Random, uid: PodUid, number: int) -> PodVersion:
    """Any version: moments come and go, since versions may be read in any order."""
    moments = {
        name: draw.choice([None, draw.randrange(1, 2**50)])
        for name in ("bound_us", "started_us", "ready_us", "deletion_us", "ended_us")
    }
    device = GrantedDevice(DeviceId("GPU-1"), GrantKind.SHARE, draw.randrange(1000), draw.choice([None, 9]))
    mig = GrantedDevice(DeviceId("GPU-2"), GrantKind.MIG, mig_profile="1g.10gb", mig_start=draw.randrange(7))
    return PodVersion(
        uid, number, draw.randrange(2**50), namespace=draw.choice(["", "team"]), name=uid,
        queue=QueueName(draw.choice(["", "research"])), node=NodeName(draw.choice(["", "a", "b"])),
        labels=draw.choice([(), (("team", "x"), ("app", ""))]), owner=draw.choice(["", "Job/a"]),
        epoch=draw.randrange(3), devices=draw.choice([(), (device,), (mig, device)]),
        gang=draw.choice(["", "g"]), gang_members=draw.randrange(1, 4), cpu_milli=draw.randrange(2**20),
        memory_bytes=draw.randrange(2**45), was_ready=draw.random() < 0.5, was_started=draw.random() < 0.5,
        has_readiness_probe=draw.random() < 0.5, **moments,
    )  # fmt: skip


def seen_at_random(seed: int) -> list[Observation]:
    draw = random.Random(seed)
    seen: list[Observation] = []
    for number in range(1, 80):
        uid = draw.choice(PODS)
        is_gone = draw.random() < 0.1
        seen.append(Gone(ObjectKind.POD, uid, number, number) if is_gone else version(draw, uid, number))
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_versions_and_deletions_are_read_as_they_were_taken(seed: int) -> None:
    pods = PackedPods()
    versions: dict[str, dict[int, PodVersion]] = {uid: {} for uid in PODS}
    gone: dict[str, Gone | None] = dict.fromkeys(PODS)
    for seen in seen_at_random(seed):
        if isinstance(seen, Gone):
            pods.to_change(seen.uid).gone = gone[seen.uid] = seen
        elif isinstance(seen, PodVersion):
            pods.to_change(seen.uid).versions[seen.number] = versions[seen.uid][seen.number] = seen
    for uid in PODS:
        assert pods.of(uid).versions == versions[uid]
        assert pods.of(uid).gone == gone[uid]


def test_a_pod_that_was_dropped_was_not_seen() -> None:
    pods = PackedPods()
    for seen in seen_at_random(0):
        if isinstance(seen, PodVersion):
            pods.to_change(seen.uid).versions[seen.number] = seen
    for uid in PODS:
        pods.drop(uid)
        assert not pods.of(uid).versions
    assert list(pods.uids()) == []


@pytest.mark.parametrize("seed", range(20))
def test_intervals_are_those_of_a_log_that_packs_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def log() -> IntervalLog:
        found = IntervalLog()
        for seen in seen_at_random(seed):
            found.take(seen)
        return found

    packed = log()
    monkeypatch.setattr(packed_pods, "UNPACKED_MAX", len(PODS))
    unpacked = log()
    assert list(packed.seen()) == list(unpacked.seen())
    assert encoded(packed.intervals()) == encoded(unpacked.intervals())
