"""The scenarios that ship: all come out as they say, each names its source, and each feature has one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.scenario.command import files_of
from gpufleet.scenario.play import play_file
from tests.conventions.project import ROOT

FILES = files_of([ROOT / "scenarios"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_comes_out_as_it_says(path: Path) -> None:
    outcome = play_file(path)
    assert not outcome.differences, "\n".join(map(str, outcome.differences))
    assert len(outcome.source) > 20, "name the document, or show the arithmetic"


def test_each_tells_another_story() -> None:
    titles = [play_file(path).title for path in FILES]
    assert len(set(titles)) == len(titles)


Story = dict[str, Any]
SYSTEMS = ("Kueue", "KAI", "Volcano", "scheduler-plugins", "kube-scheduler")


def stories() -> list[Story]:
    return [msgspec.yaml.decode(path.read_bytes()) for path in FILES]


def work_of(story: Story) -> Iterator[Story]:
    """All work of a story, also what comes later, and the roles of it."""
    listed = [
        *story.get("work", []),
        *(one for step in story.get("steps", []) for one in step.get("submit", [])),
    ]
    for one in listed:
        yield one
        yield from one.get("roles", [])


def with_work(*fields: str) -> Callable[[Story], bool]:
    return lambda story: any(field in one for one in work_of(story) for field in fields)


def with_queues(*fields: str) -> Callable[[Story], bool]:
    return lambda story: any(
        field in queue or field in queue.get("preemption", {})
        for queue in story.get("queues", [])
        for field in fields
    )


WANTED: dict[str, Callable[[Story], bool]] = {
    "quota alone, without nodes": lambda story: "queues" in story and "nodes" not in story,
    "fractions": with_work("fraction"),
    "shares by memory": with_work("gpuMemory"),
    "MIG": lambda story: any("mig" in str(one.get("resources", "")) for one in work_of(story)),
    "gangs": with_work("pods"),
    "gangs with subgroups": with_work("roles"),
    "gangs that may be smaller": with_work("min"),
    "topology that is required": with_work("level"),
    "topology that is preferred": with_work("preferred"),
    "slices of a gang": with_work("slices"),
    "balanced placement": with_work("balanced"),
    "ages": with_work("age"),
    "priorities of pods": with_work("priority"),
    "priorities of queues": with_queues("priority"),
    "models in an order": with_work("modelOrder"),
    "weights": with_queues("weight"),
    "strict queues": with_queues("strict"),
    "states of queues": with_queues("state"),
    "past usage": with_queues("halfLife"),
    "minimum run times": with_queues("reclaimAfter", "preemptAfter"),
    "maximum run times": with_queues("runTimeMax"),
    "disruption budgets": lambda story: "budgets" in story,
    "checkpoints": with_work("checkpointed"),
    "minimum run times of growth": with_queues("elasticAfter"),
    "GPUs that strangers hold": lambda story: any(one.get("held") for one in story.get("nodes") or ()),
}


def test_at_least_a_hundred_ship() -> None:
    assert len(FILES) >= 100


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_behaviour_of_each_system_is_told(system: str) -> None:
    assert sum(system.casefold() in story["source"].casefold() for story in stories()) >= 3


@pytest.mark.parametrize("feature", WANTED)
def test_every_feature_has_a_story(feature: str) -> None:
    assert any(map(WANTED[feature], stories()))
