"""The judge of a churn finds what it is there for: each kind of wrong story is named."""

from typing import Any

import pytest

from gpufleet.agent.device_plugin.share_files import ShareGiven
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.state.node_state import Held
from gpufleet.kube.keys import GPU_SHARE
from tests.agent.churn_judge import (
    ContainerRecord,
    Moment,
    against_its_grant,
    against_moment,
    beyond_capacity,
    read_told,
)
from tests.agent.node_values import a_share

FILES = {"GPU-0": "nvidia0", "GPU-1": "nvidia1"}
GRANT = (a_share("GPU-0", 500, 40_000),)
WORDS = """begin 100.25
env GPUFLEET_POD_UID=one
env GPUFLEET_DEVICES=GPU-0
env GPUFLEET_GPU_MILLI=500
env GPUFLEET_MEMORY_MIB=40000
devices nvidia0
end 104.50
"""


def a_container(
    begin_s: float, end_s: float | None, milli: int, memory_mib: int, **more: Any
) -> ContainerRecord:
    """One with a share of GPU-0."""
    variables = {
        "GPUFLEET_POD_UID": more.pop("uid", "one"),
        "GPUFLEET_CONTAINER": "main",
        "GPUFLEET_DEVICES": more.pop("gpu", "GPU-0"),
        "GPUFLEET_GPU_MILLI": str(milli),
        "GPUFLEET_MEMORY_MIB": str(memory_mib),
        "NVIDIA_VISIBLE_DEVICES": more.pop("visible", "void"),
    }
    return ContainerRecord(begin_s, end_s, variables, more.pop("devices", ("nvidia0",)))


def test_the_words_of_a_container_are_read() -> None:
    told = read_told(WORDS)
    assert (told.begin_s, told.end_s, told.devices) == (100.25, 104.5, ("nvidia0",))
    assert told.values("GPUFLEET_GPU_MILLI") == ["500"]
    assert read_told(WORDS.replace("end 104.50\n", "")).end_s is None


def test_a_container_that_begins_twice_is_no_story() -> None:
    with pytest.raises(ValueError, match="began twice"):
        read_told(WORDS + WORDS)


def test_a_container_that_sees_its_grant_is_right() -> None:
    assert list(against_its_grant("one", a_container(0, 1, 500, 40_000), GRANT, FILES)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        a_container(0, 1, 750, 40_000),
        a_container(0, 1, 500, 80_000),
        a_container(0, 1, 500, 40_000, gpu="GPU-1"),
        a_container(0, 1, 500, 40_000, uid="another"),
        a_container(0, 1, 500, 40_000, visible="all"),
        a_container(0, 1, 500, 40_000, devices=("nvidia0", "nvidia1")),
        a_container(0, 1, 500, 40_000, devices=()),
    ],
)
def test_a_container_that_sees_anything_else_is_wrong(wrong: ContainerRecord) -> None:
    assert len(list(against_its_grant("one", wrong, GRANT, FILES))) == 1


def test_containers_that_follow_one_another_fit() -> None:
    told = {"one": a_container(0, 5, 750, 60_000), "two": a_container(5, 9, 750, 60_000)}
    assert list(beyond_capacity(told, {"GPU-0": 80_000})) == []


@pytest.mark.parametrize(("milli", "memory_mib"), [(501, 1), (0, 40_001)])
def test_more_than_there_is_at_one_moment_is_found(milli: int, memory_mib: int) -> None:
    told = {"one": a_container(0, 5, 500, 40_000), "two": a_container(4.99, 9, milli, memory_mib)}
    found = list(beyond_capacity(told, {"GPU-0": 80_000}))
    assert len(found) == 1
    assert found[0].startswith("at 4.99 s GPU-0")


NAMES = {"one": "pod-one", "two": "pod-two"}


def a_moment(**facts: Any) -> Moment:
    """One in which pod one holds slot s1, as kubelet and agent agree."""
    given = ShareGiven("one", "default/pod-one", "main", 1, GRANT)
    record = (CheckpointEntry("one", "main", GPU_SHARE, frozenset({"s1"}), ("gpufleet.io/share=n1",)),)
    held = (Held("default", "pod-one", "main", GPU_SHARE, ("s1",)),)
    variables = {"record": record, "held": held, "files": {"n1": given}, "reported_milli": {}}
    return Moment(from_s=2.0, to_s=2.5, **{**variables, **facts})


def a_tale(**more: Any) -> dict[str, ContainerRecord]:
    """Pod one, which runs in that moment and sees what the file says."""
    told = a_container(1, 5, 500, 40_000, **more)
    told.variables.update({"GPUFLEET_POD": "default/pod-one", "GPUFLEET_EPOCH": "1"})
    return {"one": told}


def test_a_moment_in_which_all_agree_is_right() -> None:
    assert list(against_moment(a_tale(), NAMES, a_moment())) == []
    assert list(against_moment(a_tale(), NAMES, a_moment(held=None))) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"record": ()}, "does not know pod one"),
        ({"held": ()}, "PodResources has set()"),
        ({"held": (Held("default", "pod-one", "main", GPU_SHARE, ("s2",)),)}, "PodResources has"),
        ({"reported_milli": {"GPU-0": 1001}}, "reports 1001 milli of GPU-0"),
        ({"files": {}}, "there is no CDI file"),
        ({"files": {"n1": ShareGiven("two", "default/pod-two", "main", 1, GRANT)}}, "and it sees"),
        (
            {
                "record": (
                    CheckpointEntry("one", "main", GPU_SHARE, frozenset({"s1", "s2"}), ("x/share=n1",)),
                )
            },
            "has the slots",
        ),
    ],
)
def test_a_moment_in_which_they_differ_is_named(facts: dict[str, Any], words: str) -> None:
    found = list(against_moment(a_tale(), NAMES, a_moment(**facts)))
    assert any(words in line for line in found)


def test_a_slot_of_two_that_run_is_found() -> None:
    both = tuple(
        CheckpointEntry(uid, "main", GPU_SHARE, frozenset({"s1"}), (f"gpufleet.io/share={uid}",))
        for uid in ("one", "two")
    )
    told = {**a_tale(), "two": a_tale()["one"]}
    found = list(against_moment(told, NAMES, a_moment(record=both)))
    assert "the slot s1 has two owners that run: one and two" in found


def test_what_does_not_surely_run_all_the_moment_is_not_judged_by_it() -> None:
    late, gone = a_container(2.1, 5, 500, 40_000), a_container(1, 2.4, 500, 40_000)
    killed = a_container(1, None, 500, 40_000)
    told = {"late": late, "gone": gone, "killed": killed}
    assert list(against_moment(told, NAMES, a_moment(record=(), held=(), files={}))) == []
