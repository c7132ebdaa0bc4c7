"""What came of a case: who was evicted, and where the pods that waited ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.differential.cases import Case, Manifest, as_yaml, path_of
from tests.differential.preemption.classes import VALUES


@dataclass(frozen=True)
class Outcome:
    """``beneficiaries`` has each victim's path, and that of the pod for which it was evicted.

    ``places`` has the node of each pod that waited, "" if it waits on. ``nominated`` has the nodes on which a
    place was kept for a pod that waited, one after the other, for each pod for which there was one.
    """

    beneficiaries: Mapping[str, str]
    places: Mapping[str, str]
    nominated: Mapping[str, tuple[str, ...]]

    @property
    def victims(self) -> frozenset[str]:
        """All pods that were evicted."""
        return frozenset(self.beneficiaries)

    def victims_for(self, pod: str) -> frozenset[str]:
        """The pods that were evicted for this one."""
        return frozenset(path for path, other in self.beneficiaries.items() if other == pod)

    def __str__(self) -> str:
        """In one line."""
        places = ", ".join(f"{pod} on {node or 'no node'}" for pod, node in sorted(self.places.items()))
        victims = ", ".join(f"{path} for {pod}" for path, pod in sorted(self.beneficiaries.items()))
        nodes = {pod: " and then ".join(kept) for pod, kept in sorted(self.nominated.items())}
        kept = ", ".join(f"{pod} on {where}" for pod, where in nodes.items())
        return f"{victims or 'no pod'} evicted; {places}; places kept: {kept or 'none'}"


@dataclass(frozen=True)
class Cost:
    """What victims cost, in the order in which kube-scheduler compares nodes, but for the last field.

    ``started`` is when the first of the victims with the highest priority started: kube-scheduler takes the
    node where that is latest.
    """

    highest: int
    pods: int
    sum: int
    started: str


NO_COST = Cost(-(10**9), 0, 0, "")


@dataclass(frozen=True)
class Contest:
    """A case and what came of it under both schedulers."""

    case: Case
    ours: Outcome
    theirs: Outcome

    @property
    def agreed(self) -> bool:
        """True if both did the same, or something that neither prefers to the other.

        Which of the nodes that have room is taken is each scheduler's own affair; so is a choice between sets
        of victims that kube-scheduler holds to be equal.
        """
        if self.ours.victims == self.theirs.victims and self.ours.places == self.theirs.places:
            return True
        # What comes after two choices of equal cost is another cluster under each scheduler.
        pod = self.decisive
        is_placed = bool(self.ours.places[pod]) == bool(self.theirs.places[pod])
        return is_placed and self.cost(self.ours) == self.cost(self.theirs)

    @property
    def nominated_elsewhere(self) -> str | None:
        """A pod for which both evict the same pods, and keep places on other nodes; None if there is none."""
        paths = map(path_of, self.case.asked)
        return next((path for path in paths if self._is_nominated_elsewhere(path)), None)

    def _is_nominated_elsewhere(self, pod: str) -> bool:
        victims = self.ours.victims_for(pod)
        alike = bool(victims) and victims == self.theirs.victims_for(pod)
        return alike and self.ours.nominated.get(pod) != self.theirs.nominated.get(pod)

    @property
    def decisive(self) -> str:
        """The most important of the pods that wait for which both do not do the same."""
        paths = [path_of(one) for one in sorted(self.case.asked, key=priority_of, reverse=True)]
        return next((path for path in paths if self._differs(path)), paths[-1])

    def _differs(self, pod: str) -> bool:
        ours, theirs = self.ours, self.theirs
        victims = ours.victims_for(pod) != theirs.victims_for(pod)
        return victims or ours.places[pod] != theirs.places[pod]

    def cost(self, outcome: Outcome) -> Cost:
        """What the victims cost that ended for the decisive pod."""
        victims = [self.pod(path) for path in outcome.victims_for(self.decisive)]
        if not victims:
            return NO_COST
        priorities = [priority_of(one) for one in victims]
        highest = max(priorities)
        first = min(started_of(one) for one in victims if priority_of(one) == highest)
        return Cost(highest, len(victims), sum(priorities), first)

    def pod(self, path: str) -> Manifest:
        """A pod of the case."""
        pods = (*self.case.objects, *self.case.asked)
        return next(one for one in pods if one["kind"] == "Pod" and path_of(one) == path)

    def __str__(self) -> str:
        """Everything that is needed to see it again."""
        return "\n".join(
            (
                f"{self.case.origin} ({', '.join(self.case.themes)}):",
                f"gpufleet: {self.ours}",
                f"kube-scheduler: {self.theirs}",
                "---",
                as_yaml(self.case),
            )
        )


def noted(nominated: dict[str, tuple[str, ...]], pod: str, node: str) -> None:
    """A place is kept for a pod on this node now."""
    before = nominated.get(pod, ())
    if before[-1:] != (node,):
        nominated[pod] = (*before, node)


def priority_of(pod: Manifest) -> int:
    """The value of its PriorityClass."""
    return VALUES[pod["spec"]["priorityClassName"]]


def started_of(pod: Manifest) -> str:
    """When it started."""
    return str(pod["status"]["startTime"])
