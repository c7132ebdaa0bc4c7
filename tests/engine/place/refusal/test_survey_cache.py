"""What is kept of the reasons against shapes is right, however many shapes are refused."""

import random

import pytest

from gpufleet.engine.place.refusal import survey_cache
from tests.engine.fleet_builder import Story, node, pod, shape
from tests.engine.random_fleets import odd_node, odd_shape
from tests.engine.state_check import check_surveys


def refuse(story: Story, name: str, gpus: int) -> dict[str, int]:
    """Why a pod that asks for so many GPUs waits, by the first reason of each node."""
    story.arrive(pod(name, shape(gpus)))
    return story.explain(name)


def test_a_refusal_counts_the_nodes_as_they_are_when_it_is_told() -> None:
    story = Story()
    story.nodes(node("a", 2), node("b", 4))
    assert refuse(story, "of-8", 8) == {"gpu-count": 2}
    story.nodes(node("b", 4, cordoned=True))
    assert refuse(story, "also-of-8", 8) == {"cordoned": 1, "gpu-count": 1}
    story.lose("a")
    assert refuse(story, "another-of-8", 8) == {"cordoned": 1}


def test_more_shapes_are_refused_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_cache, "PLACES_MAX", 2)
    story = Story()
    story.nodes(node("a", 4), node("b", 2))
    for round_number in range(3):
        for gpus in (5, 6, 7):
            assert refuse(story, f"of-{gpus}-{round_number}", gpus) == {"gpu-count": 2 + round_number}
            assert len(story.engine.state.gangs.judging.surveys.kept()) <= 2
        story.nodes(node(f"c{round_number}", 1))


@pytest.mark.parametrize("seed", range(20))
def test_kept_reasons_are_those_of_nodes_asked_anew(seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    shapes = [odd_shape(chance) for _ in range(6)]
    for number in range(60):
        what = chance.random()
        if what < 0.3:
            story.nodes(odd_node(chance, f"n{chance.randrange(70)}"))
        elif what < 0.4:
            story.lose(f"n{chance.randrange(70)}")
        elif what < 0.5:
            story.depart(f"p{chance.randrange(60)}")
        else:
            story.arrive(pod(f"p{number}", chance.choice(shapes)))
        check_surveys(story.engine.state)
