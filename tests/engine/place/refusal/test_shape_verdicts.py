"""What the nodes have against a shape is said once for all queues, and as the nodes are when it is said."""

import random

import pytest

from gpufleet.engine.place.refusal.shape_verdicts import ShapeVerdicts
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from tests.engine.fleet_builder import Story, node, pod
from tests.engine.random_fleets import odd_node, odd_shape


@pytest.mark.parametrize("seed", range(5))
def test_what_is_known_of_a_shape_is_what_nodes_asked_anew_say(seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    shapes = [odd_shape(chance) for _ in range(4)]
    state = story.engine.state
    for number in range(40):
        what = chance.random()
        if what < 0.3:
            story.nodes(odd_node(chance, f"n{chance.randrange(20)}"))
        elif what < 0.4:
            story.lose(f"n{chance.randrange(20)}")
        elif what < 0.5:
            story.depart(f"p{chance.randrange(40)}")
        else:
            story.arrive(pod(f"p{number}", chance.choice(shapes)))
        for row in state.shapes.row_by_shape.values():
            anew = ShapeVerdicts(SurveyCache(state.store, state.shapes), state.neighbours)
            assert state.gangs.judging.shape_verdicts.of(row) == anew.of(row)


def test_the_same_question_has_the_same_answer_until_a_node_changes() -> None:
    story = Story()
    state = story.engine.state
    known = state.gangs.judging.shape_verdicts
    story.arrive(pod("too-large"))
    row = next(iter(state.shapes.row_by_shape.values()))
    before = known.of(row)
    assert known.of(row) is before
    story.nodes(node("a", 2))
    assert known.of(row).nodes == before.nodes + 1
