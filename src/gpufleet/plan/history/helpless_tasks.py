"""Requests that neither the fleet nor any type of the catalogue can hold, as the engine says."""

from collections import Counter
from collections.abc import Sequence

from gpufleet.engine.event import PodAdded, PodRemoved
from gpufleet.engine.explanations.sentences import explain
from gpufleet.engine.instruction import Bind
from gpufleet.engine.policy import find_policy
from gpufleet.model.identifiers import PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from gpufleet.plan.history.answer import Helpless
from gpufleet.plan.history.demand import Demand
from gpufleet.replay.measured_engine import MeasuredEngine

PROBE = "best-fit"
"""A policy that needs no target: whether a pod has room on an empty fleet does not depend on the policy."""


def helpless_shapes(demand: Demand, nodes: Sequence[Node]) -> dict[Shape, str]:
    """Shapes that find no room on any of these nodes while they are empty, each with the reason."""
    measured = MeasuredEngine(find_policy(PROBE), 0)
    measured.set_up(list(nodes), ())
    found: dict[Shape, str] = {}
    for number, shape in enumerate(dict.fromkeys(task.shape for task in demand.tasks), 1):
        uid = PodUid(f"probe-{number}")
        # A moment each, so that none waits for what an earlier one held.
        said = measured.step(2 * number, (PodAdded(Pod(uid=uid, shape=shape)),))
        if not any(isinstance(one, Bind) for one in said):
            verdict = measured.engine.explain(uid)
            found[shape] = "" if verdict is None else explain(verdict, shape)
        measured.step(2 * number + 1, (PodRemoved(uid),))
    return found


def helpless(demand: Demand, shapes: dict[Shape, str]) -> tuple[Helpless, ...]:
    """The tasks of these shapes, the most frequent request first."""
    counts = Counter(task.shape for task in demand.tasks if task.shape in shapes)
    asked = Counter[tuple[int, int, tuple[str, ...], str]]()
    for shape, count in counts.items():
        gpu = shape.gpu
        asked[gpu.count, gpu.gpu_milli, tuple(map(str, gpu.models)), shapes[shape]] += count
    return tuple(Helpless(count, *request) for request, count in asked.most_common())
