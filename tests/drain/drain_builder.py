"""Small fleets with work on them, and plans of draining them, for tests of the drain."""

import msgspec

from gpufleet.drain.plan import DrainPlan, WorkPlan
from gpufleet.drain.planner import plan_drain
from gpufleet.drain.question import DrainNode, DrainQuestion, DrainRules, PodThere, RunningWork
from gpufleet.engine.event import PodBound
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from tests.engine.fleet_builder import Story, gang, node, pod, shape

HOUR_S = 3600
HOUR_US = HOUR_S * 1_000_000
NOW_US = 100 * HOUR_US


class Fleet:
    """Nodes of four GPUs named n0, n1, ..., and work that runs on them, by default for ten hours."""

    def __init__(self, nodes: int, gpus: int = 4) -> None:
        self.gpus = gpus
        self.story = Story()
        self.story.at_us = NOW_US
        self.names = [f"n{number}" for number in range(nodes)]
        self.story.nodes(*(node(name, gpus) for name in self.names))
        self.work: list[RunningWork] = []
        self.used: dict[str, int] = dict.fromkeys(self.names, 0)

    def run(self, name: str, *on: int, gpus: int = 1, ran_h: float = 10, **more: object) -> None:
        """Work with one pod of so many GPUs on each of these nodes; a gang where there is more than one."""
        is_gang = len(on) > 1
        if is_gang:
            self.story.gangs(gang(name, len(on)))
        pods = []
        for rank, number in enumerate(on):
            there, uid = self.names[number], f"{name}-{rank}"
            first = self.used[there]
            self.used[there] += gpus
            devices = tuple(DeviceId(f"{there}/{first + index}") for index in range(gpus))
            one = pod(uid, shape(gpus), gang=name if is_gang else None)
            self.story.happen(PodBound(one, NodeName(there), devices, NOW_US - int(ran_h * HOUR_US)))
            pods.append(PodThere(PodUid(uid), f"default/{uid}", NodeName(there), gpus * 1000))
        known = RunningWork(name, tuple(pods), saved_at_us=NOW_US - int(ran_h * HOUR_US))
        self.work.append(msgspec.structs.replace(known, **more))

    def question(self, *numbers: int, **rules: int | None) -> DrainQuestion:
        """These nodes are to be drained, or all of them."""
        names = [self.names[number] for number in numbers] or self.names
        nodes = tuple(DrainNode(NodeName(name), self.gpus * 1000) for name in names)
        return DrainQuestion(NOW_US, nodes, tuple(self.work), DrainRules(**rules))  # type: ignore[arg-type]

    def plan(self, *numbers: int, **rules: int | None) -> DrainPlan:
        """The plan of that."""
        with self.story.engine.relocating() as places:
            return plan_drain(self.question(*numbers, **rules), places)


def of(plan: DrainPlan, name: str) -> WorkPlan:
    """What becomes of some work; it is planned once."""
    (found,) = (one for one in plan.work if one.name == name)
    return found


def targets(planned: WorkPlan) -> list[str]:
    """Where the pods of some work go."""
    return [move.target for move in planned.moves]
