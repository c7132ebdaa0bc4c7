"""Builders of what pods ask of each other; as in ``fleet_builder`` a test names only what matters to it."""

from gpufleet.model.host_port import HostPort
from gpufleet.model.identifiers import NodeName
from gpufleet.model.labels import (
    LabelSelector,
    NodeAffinity,
    NodeNameRequirement,
    NodeTerm,
    Operator,
    PreferredTerm,
    Requirement,
    equals,
)
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm, PreferredPodTerm
from gpufleet.model.relations import Relations
from gpufleet.model.shape import ANYWHERE, Shape
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import Attachment, UnboundClaim, VolumeCandidate, Volumes
from tests.engine.fleet_builder import Story, node, pod, shape

ZONE = "zone"
HOST = "host"
EVERYBODY = LabelSelector()


def of_app(*names: str) -> LabelSelector:
    """Pods whose label "app" is one of these."""
    return LabelSelector((Requirement("app", Operator.IN, names),))


def app(name: str) -> tuple[tuple[str, str], ...]:
    """The label by which ``of_app`` selects."""
    return (("app", name),)


def of(uid: str, own: str, needs: Shape | None = None, namespace: str = "") -> Pod:
    """A pod of an app."""
    return pod(uid, needs, labels=app(own), namespace=namespace)


def place_of(told: Story, uid: str) -> str:
    """The node a pod was bound to."""
    return told.binds[uid][0]


def term(
    *apps: str,
    key: str = ZONE,
    namespaces: tuple[str, ...] = ("",),
    namespace_labels: dict[str, str] | None = None,
) -> PodTerm:
    """Pods of these apps in the domain of ``key``; of the namespaces named or so labelled."""
    selector = None
    if namespace_labels is not None:
        selector = LabelSelector(equals(namespace_labels.items()))
    return PodTerm(key, NamespaceScope(namespaces, selector), of_app(*apps) if apps else None)


def preferred(weight: int, wanted: PodTerm) -> PreferredPodTerm:
    """A term that is only wished for."""
    return PreferredPodTerm(weight, wanted)


def spread(
    *apps: str,
    max_skew: int = 1,
    key: str = ZONE,
    required: bool = True,
    min_domains: int = 1,
    honor_affinity: bool = True,
    honor_taints: bool = False,
) -> SpreadConstraint:
    """Pods of these apps evenly over the domains of ``key``."""
    return SpreadConstraint(
        max_skew, key, of_app(*apps) if apps else None, required, min_domains, honor_affinity, honor_taints
    )


def related(
    own: str = "",
    *,
    namespace: str = "",
    ports: tuple[HostPort, ...] = (),
    affinity: tuple[PodTerm, ...] = (),
    anti_affinity: tuple[PodTerm, ...] = (),
    preferred: tuple[PreferredPodTerm, ...] = (),
    spread: tuple[SpreadConstraint, ...] = (),
    attachments: tuple[Attachment, ...] = (),
    exclusive: tuple[str, ...] = (),
    unbound: tuple[UnboundClaim, ...] = (),
) -> Relations:
    """What a pod of the app ``own`` asks of others."""
    return Relations(
        namespace,
        app(own) if own else (),
        ports,
        affinity,
        anti_affinity,
        preferred,
        spread,
        Volumes(attachments, exclusive, unbound),
    )


def asking(own: str = "", *, gpus: int = 0, **asked: object) -> Shape:
    """A shape that asks only this of others."""
    return shape(gpus, relations=related(own, **asked))  # type: ignore[arg-type]


def zoned(*zones: str | None, gpus: int = 8, **more: object) -> list[Node]:
    """Nodes n0, n1, ... each in its zone (None: no zone), with a host name of its own."""
    return [
        node(
            f"n{number}",
            gpus,
            labels={HOST: f"n{number}"} | ({} if zone is None else {ZONE: zone}),
            **more,  # type: ignore[arg-type]
        )
        for number, zone in enumerate(zones)
    ]


def in_zone(*zones: str) -> NodeAffinity:
    """Nodes in one of these zones."""
    return NodeAffinity((NodeTerm((Requirement(ZONE, Operator.IN, zones),)),))


def on_node(name: str) -> NodeAffinity:
    """One node."""
    return NodeAffinity((NodeTerm((), (NodeNameRequirement(Operator.IN, NodeName(name)),)),))


def prefers_zone(zone: str, weight: int = 10) -> NodeAffinity:
    """Any node, better one of this zone."""
    wanted = NodeTerm((Requirement(ZONE, Operator.IN, (zone,)),))
    return NodeAffinity(preferred=(PreferredTerm(weight, wanted),))


def volume(name: str, reach: NodeAffinity = ANYWHERE) -> VolumeCandidate:
    """A volume that is free."""
    return VolumeCandidate(name, reach)


def claim(
    name: str, *candidates: VolumeCandidate, provision: tuple[NodeAffinity, ...] | None = None
) -> UnboundClaim:
    """A claim that waits for its first pod."""
    return UnboundClaim(name, candidates, provision)
