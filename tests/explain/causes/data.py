"""The cause that a pod's data makes: it requires a model that is on no node with room."""

from tests.explain.causes.book import cause
from tests.scheduler.world import World

MODEL = {"gpufleet.io/data": "model/org/llama@r1", "gpufleet.io/data-policy": "Require"}


@cause(
    "data-missing",
    why="a would do, but no complete copy of model/org/llama@r1 is there",
    way="copy the data to a folder of that node",
)
def a_model_that_still_arrives(world: World) -> None:
    world.node("a")
    world.data("a", "org/llama", revision="r1", complete=False)
    world.pod("p", annotations=MODEL)
