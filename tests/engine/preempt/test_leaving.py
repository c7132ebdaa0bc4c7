"""What is short once those who leave anyway have gone."""

from gpufleet.engine.preempt.leaving import GPU, FutureRoom
from gpufleet.model.identifiers import NodeName
from tests.engine.fleet_builder import Story, node, shape


def test_a_shape_that_nobody_has_asked_about_yet_is_answered_however_many_were_before() -> None:
    story = Story()
    story.nodes(node("n", 4))
    for gpus in range(1, 80):
        # Nothing runs and nothing leaves: of so many more GPUs than its four the node lacks the rest.
        state = story.engine.state
        short = FutureRoom(state).shortage(state.shapes.hold(shape(100 + gpus)))
        assert int(short[state.fleet.row_by_name[NodeName("n")], GPU]) == 100 + gpus - 4
