"""What a waiting pod's condition says of the place that is kept for it is read back as it was written."""

import msgspec
import pytest

from gpufleet.kube.codec.lasting_conditions import Said
from gpufleet.kube.codec.nomination_parts import (
    LENGTH_MAX,
    NominationPart,
    can_be_written,
    read_nomination,
    write_nomination,
)
from gpufleet.kube.objects.pod import NOMINATED, Pod
from gpufleet.model.identifiers import NodeName, PodUid

DIGEST = "0123456789abcdef0123456789abcdef"
PART = NominationPart(NodeName("gpu-1"), ("GPU-a", "GPU-b"), (PodUid("u1"), PodUid("u2")), 7, 1, 3, DIGEST)


def pod_with(said: Said) -> Pod:
    """A pod as it is listed."""
    condition = {"type": NOMINATED, "status": said.status, "reason": said.reason, "message": said.message}
    spec = {"containers": [{"name": "main"}]}
    value = {"metadata": {"name": "p"}, "spec": spec, "status": {"conditions": [condition]}}
    return msgspec.json.decode(msgspec.json.encode(value), type=Pod)


def test_what_people_read_of_a_place_that_is_kept() -> None:
    assert write_nomination(PART) == Said(
        "True",
        "Nominated",
        "node gpu-1 is kept for it, with devices GPU-a,GPU-b, until u1,u2 ended "
        f"(nomination 7, part 1 of 3 of {DIGEST})",
    )
    assert write_nomination(None) == Said("False", "NotNominated", "no place is kept for it")


@pytest.mark.parametrize("part", [PART, PART._replace(devices=()), PART._replace(waits_for=())])
def test_a_place_survives_the_way(part: NominationPart) -> None:
    assert read_nomination(pod_with(write_nomination(part))) == part
    assert can_be_written(part)


def test_a_place_that_is_kept_no_more_says_nothing() -> None:
    assert read_nomination(pod_with(write_nomination(None))) is None


@pytest.mark.parametrize(
    "message",
    [
        "",
        "node gpu-1 is kept for it",
        write_nomination(PART).message + "!",
        write_nomination(PART).message.replace("nomination 7", "nomination -7"),
        write_nomination(PART._replace(waits_for=(PodUid("u" * LENGTH_MAX),))).message,
    ],
)
def test_what_is_not_of_this_form_says_nothing(message: str) -> None:
    assert read_nomination(pod_with(Said("True", "Nominated", message))) is None


@pytest.mark.parametrize(
    "part",
    [
        PART._replace(devices=("GPU a",)),
        PART._replace(devices=("a,b",)),
        PART._replace(devices=("-",)),
        PART._replace(waits_for=tuple(PodUid(f"{number:036}") for number in range(1000))),
    ],
    ids=["space", "comma", "dash", "long"],
)
def test_what_would_be_read_otherwise_is_not_written(part: NominationPart) -> None:
    assert not can_be_written(part)
