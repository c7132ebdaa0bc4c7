"""GPU pods that wait while GPUs are free, because pods without GPUs hold CPU or memory beside them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.free_capacity import Amounts, asked_by, offered_by, shown
from gpufleet.lint.objects.cluster import tolerations_on
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.model.taint import untolerated

_Tolerated = tuple[tuple[tuple[str, str], ...], ...]
_Needs = tuple[Amounts, _Tolerated, frozenset[str]]


@dataclass(frozen=True)
class CrowdedNode:
    """A node, what is free there, and what would be without the pods that could be elsewhere."""

    node: NodeView
    free: Amounts
    without: Amounts
    guests: tuple[PodView, ...]


def judge(facts: Facts) -> Iterator[Failure]:
    """All such pods together, with the nodes that would have room for them."""
    places = Places(facts)
    stuck: dict[str, PodView] = {}
    nodes: dict[str, tuple[CrowdedNode, str]] = {}
    # Of thousands of pods a few differ in what they ask for, select and tolerate.
    known: dict[_Needs, dict[str, tuple[CrowdedNode, str]]] = {}
    for pod in facts.waiting:
        template = pod.template
        needs = asked_by(template), _tolerated(template), facts.cluster.taken(template)
        if needs not in known:
            known[needs] = _held(needs[0], places, places.open_to(template, needs[1], needs[2]))
        if known[needs]:
            stuck[pod.title] = pod
            nodes.update(known[needs])
    if stuck:
        yield _failure(facts, stuck, list(nodes.values()))


def _tolerated(template: PodTemplate) -> _Tolerated:
    """What the pod tolerates, as it is written; pods that write the same are alike."""
    return tuple(sorted(tuple(one.texts().items()) for one in template.tolerations))


def _held(asked: Amounts, places: "Places", open_to: Iterable["Place"]) -> dict[str, tuple[CrowdedNode, str]]:
    """The nodes on which the pod would fit without guests, and what lacks there; none if it fits anyway."""
    found: dict[str, tuple[CrowdedNode, str]] = {}
    # Of thousands of nodes a few differ in what is free. A node of the second sort lacks GPUs, which no
    # guest holds.
    lacking: dict[int, tuple[str, ...]] = {}
    without_gpus: set[int] = set()
    helped: dict[int, bool] = {}
    for one in open_to if asked.devices.items else ():
        crowd = one.crowd or places.counted(one)
        lacked = lacking.get(one.free)
        if lacked is None:
            lacked = lacking[one.free] = crowd.free.lacks(asked)
            if not lacked:
                return {}
            without_gpus |= {one.free} if crowd.free.lacks(asked.devices) else set()
        if one.free in without_gpus:
            continue
        if one.without not in helped:
            helped[one.without] = not crowd.without.lacks(asked)
        if helped[one.without]:
            found[one.name] = crowd, lacked[0]
    return found


@dataclass(slots=True)
class Place:
    """A node that takes pods. Its sort is that of its taints; ``free`` and ``without`` number amounts that
    are alike, once they are counted.
    """

    node: NodeView
    name: str
    sort: int
    crowd: CrowdedNode | None = None
    free: int = 0
    without: int = 0


class Places:
    """The open nodes; what is free on each is worked out when a pod that might go there is asked about."""

    def __init__(self, facts: Facts) -> None:
        self._pods_by_node = facts.pods_by_node
        self._numbers: dict[object, int] = {}
        self._open: dict[tuple[_Tolerated, frozenset[str]], list[Place]] = {}
        # Of thousands of nodes a few differ in their taints.
        self._all = [
            Place(one, one.name, self._number((one.taints, one.seen.completes_tolerations)))
            for one in facts.gpu_nodes
            if one.is_ready and not one.is_cordoned
        ]

    def _number(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def open_to(self, template: PodTemplate, told: _Tolerated, names: frozenset[str]) -> list[Place]:
        """Those of these names whose taints the pod tolerates, by what is told in it."""
        # A server may add a toleration for each resource that is asked for.
        key = told, frozenset(name for name, _ in template.asked_gpus)
        if key not in self._open:
            self._open[key] = list(self._not_repelling(template))
        return [one for one in self._open[key] if one.name in names]

    def _not_repelling(self, template: PodTemplate) -> Iterator[Place]:
        repels: dict[int, bool] = {}
        for one in self._all:
            if one.sort not in repels:
                tolerated = tolerations_on(one.node.seen, template)
                repels[one.sort] = untolerated(one.node.taints, tolerated) is not None
            if not repels[one.sort]:
                yield one

    def counted(self, place: Place) -> CrowdedNode:
        """The node with its guests, remembered in its place."""
        pods = self._pods_by_node.get(place.name, [])
        guests = tuple(one for one in pods if is_guest(one))
        without = offered_by(place.node.seen).less(
            asked_by(one.template) for one in pods if not is_guest(one)
        )
        free = without.less(asked_by(one.template) for one in guests)
        place.crowd = CrowdedNode(place.node, free, without, guests)
        place.free, place.without = self._number(free), self._number(without)
        return place.crowd


def is_guest(pod: PodView) -> bool:
    """Whether the pod could as well be on a node without GPUs: neither GPU work nor a part of the node."""
    belongs = pod.owner.partition(" ")[0] in {"DaemonSet", "Node"}
    return not (pod.template.uses_gpu or belongs or pod.template.is_gpu_infrastructure)


def _failure(facts: Facts, stuck: dict[str, PodView], crowded: list[tuple[CrowdedNode, str]]) -> Failure:
    names = [one.node.name for one, _ in crowded]
    seen = []
    for one, lacked in crowded:
        held = one.without.of(lacked) - one.free.of(lacked)
        guests = listed(guest.title for guest in one.guests)
        seen.append(f"{one.node.name}: {shown(lacked, held)} held by {guests}, which ask for no GPU")
    return Failure(
        f"{listed(stuck)}: pods without GPUs hold the CPU or memory beside free GPUs on {listed(names)}",
        tuple(stuck),
        tuple(seen),
        (
            Remedy(
                "keep pods without GPUs away from now on",
                f"kubectl taint nodes {' '.join(names)} nvidia.com/gpu=present:NoSchedule",
            ),
            Remedy(
                "move those that are there",
                "; ".join(
                    f"kubectl drain {name} --ignore-daemonsets --delete-emptydir-data" for name in names[:1]
                ),
            ),
        ),
        frozenset(stuck) | facts.works_above(stuck),
    )


CHECK = Check(
    "gpus-crowded-out",
    Point.PLACING,
    Layer.PLACEMENT,
    "Pods without GPUs leave room beside GPUs",
    "A GPU without CPU and memory beside it is given to no pod, and costs as much.",
    judge,
    ("Node", "Pod"),
)
