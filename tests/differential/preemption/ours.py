"""What gpufleet does in each case: the live scheduler's reading of it, and its engine played to the end.

A pod that is told to end, or is on its way out, ends a second later; a bind comes true at once.
"""

from collections.abc import Iterable, Mapping

from gpufleet.engine.event import Event, PodAdded, PodBound, PodRemoved
from gpufleet.engine.instruction import Bind, Evict, Nominated, Rejected
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import NodeName, PodUid
from tests.differential.cases import Case, path_of
from tests.differential.ours import STEP_US, Reading
from tests.differential.preemption.outcome import Outcome, noted

ROUNDS = 6
"""More than what any case needs: one for the evictions, one for the ends, and some for what follows."""


def outcomes(reading: Reading, cases: Iterable[Case], at_us: int) -> Mapping[str, Outcome]:
    """What came of each case, by its token; ``at_us`` is when the scheduler looks at them first."""
    paths = {entry.object.metadata.uid: path for path, entry in reading.pods.items()}
    return {case.token: Course(reading, case, paths).play(at_us) for case in cases}


class Course:
    """An engine that knows one case."""

    def __init__(self, reading: Reading, case: Case, paths: Mapping[str, str]) -> None:
        self.case = case
        self.paths = paths
        self.engine = Engine(find_policy("gpufleet"))
        self.waiting = {path_of(pod): reading.pods[path_of(pod)].meaning for pod in case.asked}
        self.known = {pod.uid: pod for pod in self.waiting.values() if pod is not None}
        self.events: list[Event] = [*reading.events.get("", ()), *reading.events.get(case.token, ())]
        running = (path_of(one) for one in case.objects if one["kind"] == "Pod")
        self.leaving = [reading.pods[path] for path in running if _leaves(reading, path)]
        self.victims: dict[PodUid, str] = {}
        self.places: dict[PodUid, NodeName] = {}
        self.nominated: dict[str, tuple[str, ...]] = {}

    def play(self, at_us: int) -> Outcome:
        """Let everything come true that the engine says."""
        self._step(at_us, self.events)
        self._step(at_us, [PodAdded(pod) for pod in self.known.values()])
        gone = {PodUid(entry.object.metadata.uid) for entry in self.leaving}
        ends: list[Event] = [PodRemoved(uid) for uid in sorted(gone)]
        for number in range(1, ROUNDS):
            ends += [PodRemoved(uid) for uid in self.victims if uid not in gone]
            gone |= set(self.victims)
            self._step(at_us + number * STEP_US, ends)
            ends = []
        places = {
            path: str(self.places.get(pod.uid, "")) if pod is not None and pod.uid not in self.victims else ""
            for path, pod in self.waiting.items()
        }
        victims = {self.paths[uid]: pod for uid, pod in self.victims.items()}
        return Outcome(victims, places, self.nominated)

    def _step(self, at_us: int, events: list[Event]) -> None:
        said = self.engine.step(at_us, events)
        refused = [one for one in said if isinstance(one, Rejected)]
        assert not refused, refused
        for one in said:
            if isinstance(one, Evict):
                self.victims.setdefault(one.uid, self.paths[PodUid(one.beneficiary or "")])
            if isinstance(one, Nominated):
                noted(self.nominated, self.paths[one.uid], str(one.node))
        for one in said:
            if isinstance(one, Bind):
                self.places[one.uid] = one.node
                self._step(at_us, [PodBound(self.known[one.uid], one.node, one.devices, at_us)])


def _leaves(reading: Reading, path: str) -> bool:
    entry = reading.pods.get(path)
    return entry is not None and entry.object.metadata.deletion_timestamp is not None
