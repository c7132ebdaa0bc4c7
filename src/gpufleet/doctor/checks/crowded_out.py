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
    crowds = Crowds(facts)
    open_nodes = [one for one in facts.gpu_nodes if one.is_ready and not one.is_cordoned]
    stuck: dict[str, PodView] = {}
    nodes: dict[str, tuple[CrowdedNode, str]] = {}
    # Of thousands of pods a few differ in what they ask for, select and tolerate.
    known: dict[_Needs, dict[str, tuple[CrowdedNode, str]]] = {}
    for pod in facts.waiting:
        template = pod.template
        needs = asked_by(template), _tolerated(template), facts.cluster.taken(template)
        if needs not in known:
            mine = [one for one in open_nodes if one.name in needs[2]]
            known[needs] = _held(needs[0], map(crowds.on, _open_to(template, mine)))
        if known[needs]:
            stuck[pod.title] = pod
            nodes.update(known[needs])
    if stuck:
        yield _failure(facts, stuck, list(nodes.values()))


def _open_to(template: PodTemplate, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
    """The nodes whose taints the pod tolerates. Of thousands of nodes a few differ in their taints."""
    repels: dict[tuple[object, bool], bool] = {}
    for one in nodes:
        sort = one.taints, one.seen.completes_tolerations
        if sort not in repels:
            repels[sort] = untolerated(one.taints, tolerations_on(one.seen, template)) is not None
        if not repels[sort]:
            yield one


def _tolerated(template: PodTemplate) -> _Tolerated:
    """What the pod tolerates, as it is written; pods that write the same are alike."""
    return tuple(sorted(tuple(one.texts().items()) for one in template.tolerations))


def _held(asked: Amounts, nodes: Iterable[CrowdedNode]) -> dict[str, tuple[CrowdedNode, str]]:
    """The nodes on which the pod would fit without guests, and what lacks there; none if it fits anyway."""
    found: dict[str, tuple[CrowdedNode, str]] = {}
    # Of thousands of nodes a few differ in what is free. A node of the second sort lacks GPUs, which no
    # guest holds.
    lacking: dict[Amounts, tuple[str, ...]] = {}
    without_gpus: set[Amounts] = set()
    for one in nodes if asked.devices.items else ():
        free = one.free
        if free not in lacking:
            lacking[free] = free.lacks(asked)
            if not lacking[free]:
                return {}
            without_gpus |= {free} if free.lacks(asked.devices) else set()
        if free not in without_gpus and not one.without.lacks(asked):
            found[one.node.name] = one, lacking[free][0]
    return found


class Crowds:
    """The nodes with what is free on them, each worked out when a pod that might go there is asked about."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[str, CrowdedNode] = {}

    def on(self, node: NodeView) -> CrowdedNode:
        """The node with its guests."""
        if node.name not in self._known:
            self._known[node.name] = self._counted(node)
        return self._known[node.name]

    def _counted(self, node: NodeView) -> CrowdedNode:
        pods = self._facts.pods_by_node.get(node.name, [])
        guests = tuple(one for one in pods if is_guest(one))
        without = offered_by(node.seen).less(asked_by(one.template) for one in pods if not is_guest(one))
        return CrowdedNode(node, without.less(asked_by(one.template) for one in guests), without, guests)


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
