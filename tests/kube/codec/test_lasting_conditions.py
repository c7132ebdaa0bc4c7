"""What a leader decided for a while is read back as it was written, and nothing else is taken for it."""

import msgspec
import pytest

from gpufleet.eviction.plan import Cause
from gpufleet.kube.codec.lasting_conditions import (
    NODES_MAX,
    BindPause,
    Distrust,
    RefusedVolume,
    Said,
    ShortGang,
    read_bind_pause,
    read_distrust,
    read_refused_eviction,
    read_refused_volumes,
    read_short_gang,
    write_bind_pause,
    write_distrust,
    write_refused_eviction,
    write_refused_volumes,
    write_short_gang,
)
from gpufleet.kube.objects.node import PODS_REJECTED, Node
from gpufleet.kube.objects.pod import BIND_REFUSED, EVICTION_REFUSED, GANG_SHORT, VOLUME_REFUSED, Pod
from gpufleet.model.identifiers import NodeName

NOON_US = 1_795_435_200_000_000
"""2026-11-23T12:00:00Z"""


def condition(kind: str, said: Said) -> dict[str, object]:
    return {"type": kind, "status": said.status, "reason": said.reason, "message": said.message}


def node_with(said: Said) -> Node:
    """A node as it is listed."""
    value = {"metadata": {"name": "a"}, "status": {"conditions": [condition(PODS_REJECTED, said)]}}
    return msgspec.json.decode(msgspec.json.encode(value), type=Node)


def pod_with(said: Said, kind: str = VOLUME_REFUSED) -> Pod:
    """A pod as it is listed."""
    spec = {"containers": [{"name": "main"}]}
    value = {
        "metadata": {"name": "p"},
        "spec": spec,
        "status": {"conditions": [condition(kind, said)]},
    }
    return msgspec.json.decode(msgspec.json.encode(value), type=Pod)


def test_what_people_read_of_a_node_that_is_left_alone() -> None:
    assert write_distrust(Distrust(NOON_US, 240_000_000)) == Said(
        "True",
        "KubeletRejectsPods",
        "its kubelet turned pods away; nothing new is placed there until 2026-11-23T12:00:00Z; "
        "the next pause lasts 240 s",
    )
    assert write_distrust(Distrust(0, 120_000_000)) == Said(
        "False",
        "KubeletTrusted",
        "new pods are placed there as on any node; the next pause lasts 120 s",
    )


def test_what_people_read_of_a_pod_whose_claim_was_refused() -> None:
    refused = (RefusedVolume("team/data", NodeName("gpu-1"), NOON_US),)
    assert write_refused_volumes(refused) == Said(
        "True",
        "VolumeRefused",
        "claim team/data got no volume on node gpu-1, left out until 2026-11-23T12:00:00Z",
    )
    assert write_refused_volumes(()) == Said("False", "NodesTriedAgain", "no node is left out for a claim")


def test_what_people_read_of_a_pod_of_which_the_eviction_was_refused() -> None:
    assert write_refused_eviction("disruption-budget", NOON_US) == Said(
        "True",
        "EvictionRefused",
        "its eviction was refused (disruption-budget), and is not asked for again until 2026-11-23T12:00:00Z",
    )


@pytest.mark.parametrize("cause", Cause)
def test_a_refused_eviction_survives_the_way(cause: Cause) -> None:
    pod = pod_with(write_refused_eviction(cause.value, NOON_US), EVICTION_REFUSED)
    assert read_refused_eviction(pod) == NOON_US


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("True", ""),
        ("True", "its eviction was refused (forbidden), and is not asked for again until tomorrow"),
        (
            "True",
            "its eviction was refused (x; y), and is not asked for again until 2026-11-23T12:00:00Z",
        ),
        (
            "True",
            "its eviction was refused (" + "x" * 5000 + "), and is not asked for again until "
            "2026-11-23T12:00:00Z",
        ),
        (
            "True",
            "its eviction was refused (forbidden), and is not asked for again until 2026-02-31T12:00:00Z",
        ),
        (
            "False",
            "its eviction was refused (forbidden), and is not asked for again until 2026-11-23T12:00:00Z",
        ),
    ],
)
def test_other_words_refuse_no_eviction(status: str, message: str) -> None:
    pod = pod_with(Said(status, "EvictionRefused", message), EVICTION_REFUSED)
    assert read_refused_eviction(pod) == 0


@pytest.mark.parametrize("distrust", [Distrust(NOON_US, 240_000_000), Distrust(0, 3_600_000_000)])
def test_distrust_survives_the_way(distrust: Distrust) -> None:
    assert read_distrust(node_with(write_distrust(distrust))) == distrust


@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_refusals_survive_the_way(nodes: int) -> None:
    refused = tuple(
        RefusedVolume("team/data", NodeName(f"gpu-{number}"), NOON_US + number * 1_000_000)
        for number in range(nodes)
    )
    assert read_refused_volumes(pod_with(write_refused_volumes(refused))) == refused


def test_of_very_many_refusals_the_newest_are_kept() -> None:
    refused = tuple(RefusedVolume("c", NodeName(f"n{number}"), NOON_US) for number in range(100))
    assert read_refused_volumes(pod_with(write_refused_volumes(refused))) == refused[-NODES_MAX:]


@pytest.mark.parametrize(
    "message",
    [
        "",
        "until tomorrow",
        "its kubelet turned pods away; until 2026-11-23T12:00:00Z; the next pause lasts 1e9 s",
        "its kubelet turned pods away; until 2026-11-23T12:00:00Z; the next pause lasts 99999999999 s",
        "its kubelet turned pods away; "
        + "x" * 5000
        + " until 2026-11-23T12:00:00Z; the next pause lasts 9 s",
    ],
)
def test_other_words_of_a_node_say_nothing(message: str) -> None:
    assert read_distrust(node_with(Said("True", "KubeletRejectsPods", message))) is None


def test_a_time_that_is_none_counts_as_long_ago() -> None:
    words = "its kubelet turned pods away; x until 2026-02-31T12:00:00Z; the next pause lasts 60 s"
    assert read_distrust(node_with(Said("True", "x", words))) == Distrust(0, 60_000_000)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "claim  got no volume on node a, left out until 2026-11-23T12:00:00Z",
        "claim c got no volume on node " + "a" * 300 + ", left out until 2026-11-23T12:00:00Z",
        "; ".join(["claim c got no volume on node a, left out until 2026-11-23T12:00:00Z"] * 1000),
    ],
)
def test_other_words_of_a_pod_say_nothing(message: str) -> None:
    assert read_refused_volumes(pod_with(Said("True", "VolumeRefused", message))) == ()


def test_what_people_read_of_a_pod_that_pauses() -> None:
    assert write_bind_pause(BindPause(2, NOON_US + 500_000)) == Said(
        "True",
        "BindRefused",
        "its last Bindings were refused (2), and the next is made after 2026-11-23T12:00:00.500000Z",
    )


@pytest.mark.parametrize("pause", [BindPause(1, NOON_US + 1), BindPause(999_999, NOON_US)])
def test_a_pause_is_read_back_as_it_was_written(pause: BindPause) -> None:
    assert read_bind_pause(pod_with(write_bind_pause(pause), BIND_REFUSED)) == pause


@pytest.mark.parametrize(
    "message",
    [
        "",
        "its last Bindings were refused (2)",
        "its last Bindings were refused (many), and the next is made after 2026-11-23T12:00:00.500000Z",
        "its last Bindings were refused (2), and the next is made after noon",
        "its last Bindings were refused (1234567), and the next is made after 2026-11-23T12:00:00.500000Z",
    ],
)
def test_other_words_of_a_pause_say_nothing(message: str) -> None:
    assert read_bind_pause(pod_with(Said("True", "BindRefused", message), BIND_REFUSED)) is None


@pytest.mark.parametrize(
    ("short", "words"),
    [
        (
            ShortGang(NOON_US + 500_000, 4, started=True),
            " since 2026-11-23T12:00:00.500000Z; it ran with 4, and members that come join those that run",
        ),
        (
            ShortGang(None, 0, started=False),
            "; it was not whole before, and members that come wait for all that it lacks",
        ),
    ],
)
def test_what_people_read_of_a_gang_that_is_short(short: ShortGang, words: str) -> None:
    assert write_short_gang(short) == Said("True", "GangShort", f"its gang is short of members{words}")
    assert read_short_gang(pod_with(write_short_gang(short), GANG_SHORT)) == short


def test_a_gang_that_is_whole_again_says_nothing() -> None:
    said = write_short_gang(None)
    assert said == Said("False", "GangWhole", "its gang has all members that it needs")
    assert read_short_gang(pod_with(said, GANG_SHORT)) is None


@pytest.mark.parametrize(
    "message",
    [
        "",
        "its gang is short of members",
        "its gang is short of members since noon; it ran with 4, and members that come join those that run",
        "its gang is short of members; it ran with 1234567, and members that come join those that run",
        "its gang is short of members; it ran with 4, and members that come stay away",
    ],
)
def test_other_words_of_a_gang_say_nothing(message: str) -> None:
    assert read_short_gang(pod_with(Said("True", "GangShort", message), GANG_SHORT)) is None
