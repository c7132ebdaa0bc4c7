"""A snapshot holds what decisions depend on and nothing else, and the engine decides on it as live."""

import datetime as dt
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cli.main import main
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps, lines_of, picture_of
from gpufleet.cluster.snapshots.decisions import Moment, first_decisions
from gpufleet.cluster.snapshots.document import FORMAT, Snapshot, as_written, read, written
from gpufleet.cluster.verdict_words import words_for_gang, words_for_pod
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.instruction import Bind, GangUnschedulable, Unschedulable
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.owners import Job
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.model.model_errors import InputError
from tests.kube.wire_objects import decoded
from tests.scheduler.world import World, in_world

SETTINGS = Settings(identity="snapshot")
TAKEN_AT = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "3"}
SECRET = "hunter2"  # noqa: S105  what must not be found


def picture(**objects: Iterable[tuple[type[Any], dict[str, Any]]]) -> Picture:
    """A picture of these objects, by the name of their kind in ``resources``."""
    found = Picture()
    for name, listed in objects.items():
        read_as = [decoded(written_as, kind) for kind, written_as in listed]
        kept = {(one.metadata.namespace, one.metadata.name): one for one in read_as}
        found.objects[getattr(resources, name)] = dict(sorted(kept.items()))
    return found


def snapshot(of: Picture) -> Snapshot:
    """It, written and read again, without decisions."""
    return read(written(of, SETTINGS, TAKEN_AT, []), "test")


def node(name: str, **allocatable: str) -> tuple[type[Any], dict[str, Any]]:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4", **allocatable}
    return Node, {"metadata": {"name": name}, "status": {"allocatable": amounts}}


NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.dictionaries(
    st.sampled_from(["app", "gpufleet.io/queue", "gpufleet.io/gpu-fraction", "gpufleet.io/gang", "x/note"]),
    st.sampled_from(["a", "b", "0.5", ""]),
)


@st.composite
def pods(draw: st.DrawFn) -> tuple[type[Any], dict[str, Any]]:
    """A pod in any state, well or badly written."""
    name = draw(NAMES)
    limits = draw(
        st.dictionaries(
            st.sampled_from(["nvidia.com/gpu", "cpu", "gpufleet.io/gpu-share"]),
            st.sampled_from(["1", "2", "500m", "x"]),
        )
    )
    container = {"name": "main", "image": draw(st.sampled_from(["x", "cuda:12.4"])), "args": ["--token", "t"]}
    metadata = {
        "name": name,
        "namespace": draw(NAMES),
        "uid": f"uid-{draw(st.integers(0, 999))}",
        "resourceVersion": "9",
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "labels": draw(TEXTS),
        "annotations": draw(TEXTS),
    }
    if draw(st.booleans()):
        metadata["deletionTimestamp"] = "2026-02-28T12:00:00Z"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    return Pod, {
        "metadata": metadata,
        "spec": {
            "schedulerName": draw(st.sampled_from(["gpufleet", "default-scheduler"])),
            "nodeName": draw(st.sampled_from(["", "a", "gone"])),
            "priority": draw(st.none() | st.integers(-5, 5)),
            "containers": [{**container, "resources": {"limits": limits}}],
            "tolerations": draw(st.sampled_from([[], [{"operator": "Exists"}]])),
        },
        "status": {
            "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded"])),
            "conditions": [told],
        },
    }


@given(st.lists(pods(), max_size=6))
def test_the_engine_hears_the_same_of_a_snapshot_as_of_the_cluster(drawn: list[Any]) -> None:
    listed = picture(PODS=drawn, NODES=[node("a"), node("b", pods="1")])
    there = snapshot(listed).picture
    moment = Moment(TAKEN_AT)
    assert Facts(there, SETTINGS, moment).waves == Facts(listed, SETTINGS, moment).waves
    assert as_written(there).objects == there.objects


def test_what_nobody_decides_by_is_not_in_it() -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "note": SECRET},
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": f"example.com/{SECRET}",
                    "args": [SECRET],
                    "command": [SECRET],
                    "env": [{"name": "TOKEN", "value": SECRET}],
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": SECRET}]},
    }
    job = {"metadata": {"name": "j", "namespace": "default", "annotations": {"note": SECRET}}}
    queue = {"metadata": {"name": "q", "annotations": {"note": SECRET}}, "spec": {}, "status": {"x": SECRET}}
    said = {"type": "ready", "status": "True", "message": SECRET}
    device = {"driver": "d", "pool": "p", "device": "d0", "conditions": [said], "data": {"x": SECRET}}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "status": {"devices": [device]}}
    taken = picture(
        PODS=[(Pod, pod)],
        JOBS=[(Job, job)],
        FLEET_QUEUES=[(FleetQueue, queue)],
        RESOURCE_CLAIMS=[(ResourceClaimObject, claim)],
    )
    lines = list(written(taken, SETTINGS, TAKEN_AT, []))
    assert len(lines) == 5
    assert SECRET.encode() not in b"".join(lines)


def test_past_use_of_queues_is_kept() -> None:
    use = {"resource": "gpu", "atMicroseconds": 5, "used": 1000, "value": "12", "area": "34"}
    queue = {"metadata": {"name": "q"}, "spec": {"halfLife": "1h"}, "status": {"pastUse": [use]}}
    taken = picture(FLEET_QUEUES=[(FleetQueue, queue)])
    (kept,) = snapshot(taken).picture.objects[resources.FLEET_QUEUES].values()
    assert json.loads(bytes(kept.status)) == {"pastUse": [use]}


def a_story(world: World) -> None:
    """Nodes, a queue, a gang that does not fit, pods that do, one over its quota, and two that are broken."""
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "FleetQueue",
            "metadata": {"name": "team"},
            "spec": {"quotas": [{"resource": "gpu", "nominal": 3, "borrowingLimit": 0}]},
        }
    )
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "FleetQueue",
            "metadata": {"name": "default"},
            "spec": {"quotas": [{"resource": "gpu", "nominal": 32}]},
        }
    )
    for name in ("b", "a"):
        world.node(name, gpus=4)
    world.node("shared", gpus=2, shares=True)
    for name in ("g-0", "g-1", "g-2"):
        world.pod(name, gpus=4, annotations=GANG)
    world.pod("small", gpus=1, labels={"gpufleet.io/queue": "team"})
    world.pod("large", gpus=4, labels={"gpufleet.io/queue": "team"})
    world.pod("huge", gpus=9)
    world.pod(
        "part",
        gpus=0,
        annotations={"gpufleet.io/gpu-fraction": "0.5"},
        resources={"gpufleet.io/gpu-share": "1"},
    )
    world.pod("broken", gpus=0, annotations={"gpufleet.io/gpu-fraction": "2"})
    world.pod("foreign", gpus=1, schedulerName="default-scheduler")
    world.pod("unreadable", gpus=1, tolerations=[{"key": 7}])


async def taken_from(world: World) -> bytes:
    client = Client(world.transport("system:masters"), world.clock, world.random)
    listed, settings, taken_at = await picture_of(client, SETTINGS, lambda _: None)
    return b"".join(lines_of(listed, settings, taken_at))


def test_the_engine_decides_on_it_as_live() -> None:
    """The same places, the same devices, the same words for those who wait."""

    async def story(world: World) -> None:
        await world.stop()
        a_story(world)
        there = read((await taken_from(world)).splitlines(keepends=True), "test")
        world.start()
        await world.settle(60)

        said = [one for step in first_decisions(there.picture, SETTINGS, TAKEN_AT) for one in step]
        names = {pod.metadata.uid: pod for pod in there.picture.all(resources.PODS)}
        bound = {
            names[one.uid].metadata.name: (one.node, list(one.devices))
            for one in said
            if isinstance(one, Bind)
        }
        live = [pod for pod in names.values() if world.node_of(pod.metadata.name)]
        assert bound == {
            pod.metadata.name: (world.node_of(pod.metadata.name), world.devices_of(pod.metadata.name))
            for pod in live
        }
        assert sorted(bound) == ["part", "small"]

        facts = Facts(there.picture, SETTINGS, Moment(TAKEN_AT))
        words = {}
        for one in said:
            if isinstance(one, Unschedulable):
                entry = facts.pods.entries[one.uid]
                assert entry.meaning is not None
                words[entry.name.name] = words_for_pod(one.verdict, entry.meaning.shape)
            elif isinstance(one, GangUnschedulable):
                member = next(iter(facts.gangs.records[one.gang].pods.values()))
                assert member.meaning is not None
                words.update(
                    {f"g-{number}": words_for_gang(one, member.meaning.shape) for number in range(3)}
                )
        assert sorted(words) == ["g-0", "g-1", "g-2", "huge", "large"]
        assert words == {name: world.why(name) for name in words}

    in_world(story)


def test_what_cannot_be_read_keeps_its_problem() -> None:
    async def story(world: World) -> None:
        await world.stop()
        a_story(world)
        there = read((await taken_from(world)).splitlines(keepends=True), "test")
        facts = Facts(there.picture, SETTINGS, Moment(TAKEN_AT))
        assert "tolerations[0].key" in facts.unreadable("default", "unreadable")
        (held,) = [entry for entry in facts.pods.entries.values() if entry.name.name == "unreadable"]
        assert held.held is not None

    in_world(story)


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """A small snapshot."""
    found: list[bytes] = []

    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=2)
        world.pod("p", gpus=1)
        found.extend((await taken_from(world)).splitlines(keepends=True))

    in_world(story)
    return found


def refusal(lines: list[bytes]) -> str:
    with pytest.raises(InputError) as caught:
        read(lines, "s.gz")
    return str(caught.value)


def test_the_header_says_what_follows(lines: list[bytes]) -> None:
    header = json.loads(lines[0])
    assert header["snapshot"] == FORMAT
    assert header["objects"]["v1/Pod"] == 1
    assert sum(header["objects"].values()) + header["steps"] == len(lines) - 1


def test_a_file_that_was_cut_off_is_noticed(lines: list[bytes]) -> None:
    for length in range(1, len(lines)):
        assert "not whole" in refusal(lines[:length]), length
    assert "not whole" in refusal([*lines, lines[-1]])


def test_bad_lines_are_named(lines: list[bytes]) -> None:
    assert "not a snapshot" in refusal([])
    assert "not a snapshot" in refusal([b"hello\n", *lines])
    newer = lines[0].replace(b"snapshot/v1", b"snapshot/v9")
    assert "unknown format" in refusal([newer, *lines[1:]])
    assert "s.gz, line 2" in refusal([lines[0], b"{\n", *lines[2:]])
    assert "s.gz, line 3" in refusal([*lines[:2], lines[1], *lines[3:]])
    secret = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}\n'
    assert "no decision depends on" in refusal([lines[0], secret, *lines[2:]])
    assert "s.gz, line 2" in refusal([lines[0], b"[" * 100_000, *lines[2:]])


def test_rerun_decides_the_same_and_finds_another_decision(
    lines: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, other = tmp_path / "s.gz", tmp_path / "other"
    whole.write_bytes(gzip.compress(b"".join(lines)))
    assert main(["rerun", str(whole)]) == 0
    assert capsys.readouterr().out == "1 step, every decision the same\n"
    place = next(number for number, line in enumerate(lines) if b'"instruction":"bind"' in line)
    changed = lines[place].replace(b'"node":"a"', b'"node":"b"')
    other.write_bytes(b"".join([*lines[:place], changed, *lines[place + 1 :]]))
    assert main(["rerun", str(other)]) == 1
    assert "step 1: decided otherwise than saved" in capsys.readouterr().err


def test_equal_clusters_give_equal_files(lines: list[bytes]) -> None:
    there = read(lines, "test")
    settings, taken_at = there.settings, TAKEN_AT
    first, second = (b"".join(lines_of(there.picture, settings, taken_at)) for _ in range(2))
    assert first == second
    assert msgspec.json.decode(first.splitlines()[0])["takenAtUs"] == 1_772_366_400_000_000


def test_who_may_not_see_everything_is_told() -> None:
    assert (
        gaps(["jobs", "csinodes"]) == "you may not list csinodes, jobs: what they would have told is missing"
    )
    assert gaps([]) == ""


def test_without_a_cluster_the_error_says_how_to_have_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    monkeypatch.chdir(tmp_path)
    assert main(["snapshot"]) in {2, 3}
    assert "gpufleet up" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
