"""Builders of nodes, pods and gangs, and verbs over ``Engine.step``, so that a test reads as a story.

A builder has a default for everything, so that a test names only what matters to it. ``Story``
drives one engine and keeps what was told and what was said; the clock moves only when told to.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    Evict,
    GangUnschedulable,
    Nominated,
    NominationWithdrawn,
    Rejected,
    Unschedulable,
)
from gpufleet.engine.policy import POLICIES, Policy
from gpufleet.engine.preempt.victims import VictimSearch
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device, Serves
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import (
    DEFAULT_QUEUE,
    DeviceId,
    GangName,
    GpuModelName,
    NodeName,
    PodUid,
    QueueName,
    TopologyLevelName,
)
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue
from gpufleet.model.relations import NO_RELATIONS, Relations
from gpufleet.model.resources import Resources
from gpufleet.model.shape import ANYWHERE, GpuRequest, Shape, Within
from gpufleet.model.taint import Taint, Toleration
from gpufleet.model.topology import Topology, TopologyLevel
from gpufleet.model.volumes import Attachment

GIB = 1 << 30
SECOND_US = 1_000_000
CAREFUL = PreemptionPolicy()


def device(
    name: str,
    *,
    model: str = "A100",
    memory_mib: int | None = 40_000,
    link_group: int = 0,
    numa_node: int | None = None,
    serves: Serves = Serves.ANY,
    healthy: bool = True,
) -> Device:
    """A GPU; one of 40,000 MiB that serves anything unless told otherwise."""
    return Device(
        DeviceId(name),
        GpuModelName(model),
        memory_mib,
        link_group=link_group,
        numa_node=numa_node,
        serves=serves,
        healthy=healthy,
    )


def node(
    name: str,
    gpus: int = 0,
    *,
    model: str = "A100",
    cpu_milli: int = 64_000,
    memory_bytes: int = 256 * GIB,
    pods: int = 110,
    gpu_memory_mib: int | None = 40_000,
    link_group_size: int = 8,
    serves: Serves = Serves.ANY,
    devices: tuple[Device, ...] | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    cordoned: bool = False,
    other: tuple[tuple[str, int], ...] = (),
    features: tuple[str, ...] = (),
    volume_limits: tuple[tuple[str, int], ...] = (),
    attached: tuple[Attachment, ...] = (),
) -> Node:
    """A node with ``gpus`` devices named NAME/0, NAME/1 and so on."""
    if devices is None:
        devices = tuple(
            device(
                f"{name}/{index}",
                model=model,
                memory_mib=gpu_memory_mib,
                link_group=index // link_group_size,
                serves=serves,
            )
            for index in range(gpus)
        )
    allocatable = Resources(cpu_milli, memory_bytes, pods, other=other)
    described = (labels or {}, taints, cordoned, features, volume_limits, attached)
    return Node(NodeName(name), allocatable, devices, *described)


def shape(
    gpus: int = 0,
    *,
    milli: int = 1000,
    memory_mib: int | None = None,
    models: tuple[str, ...] = (),
    in_order: tuple[str, ...] = (),
    cpu_milli: int = 1000,
    memory_bytes: int = GIB,
    other: tuple[tuple[str, int], ...] = (),
    selector: tuple[tuple[str, str], ...] = (),
    affinity: NodeAffinity = ANYWHERE,
    tolerations: tuple[Toleration, ...] = (),
    volume_affinities: tuple[NodeAffinity, ...] = (),
    features: tuple[str, ...] = (),
    relations: Relations = NO_RELATIONS,
    within: Within = Within.NODE,
) -> Shape:
    """What a pod needs: one core, one GiB, and whole GPUs unless ``milli`` says less."""
    accepted = tuple(GpuModelName(model) for model in models or sorted(in_order))
    order = tuple((GpuModelName(model),) for model in in_order)
    gpu = GpuRequest(gpus, milli, memory_mib, accepted, order, within) if gpus else GpuRequest()
    return Shape(
        Resources(cpu_milli, memory_bytes, other=other),
        gpu,
        selector,
        affinity,
        tolerations,
        volume_affinities,
        features,
        relations,
    )


def share(milli: int, memory_mib: int | None = None, *, cpu_milli: int = 1000) -> Shape:
    """A part of one GPU."""
    return shape(1, milli=milli, memory_mib=memory_mib, cpu_milli=cpu_milli)


def pod(
    uid: str,
    needs: Shape | None = None,
    *,
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    gang: str | None = None,
    created_at_us: int = 0,
    namespace: str = "",
    labels: tuple[tuple[str, str], ...] = (),
    role: str = "",
    leaving: bool = False,
    preemptible: bool = True,
    replaceable: bool = True,
    preempts: bool = True,
) -> Pod:
    """A pod, CPU-only unless ``needs`` says more."""
    return Pod(
        PodUid(uid),
        needs if needs is not None else shape(),
        queue=QueueName(queue),
        priority=priority,
        gang=None if gang is None else GangName(gang),
        created_at_us=created_at_us,
        namespace=namespace,
        labels=labels,
        role=role,
        leaving=leaving,
        preemptible=preemptible,
        replaceable=replaceable,
        preempts=preempts,
    )


def members(gang_name: str, count: int, needs: Shape | None = None) -> list[Pod]:
    """Pods of a gang, named GANG-0, GANG-1 and so on."""
    return [pod(f"{gang_name}-{number}", needs, gang=gang_name) for number in range(count)]


def gang(
    name: str,
    min_members: int,
    *,
    level: str | None = None,
    preferred: str | None = None,
    priority: int = 0,
    queue: str = DEFAULT_QUEUE,
    roles: tuple[tuple[str, int], ...] = (),
    one_of: tuple[str, ...] = (),
) -> Gang:
    """A gang, anywhere in the fleet unless a topology level is required, or one of several models."""
    required = None if level is None else TopologyLevelName(level)
    models = tuple(GpuModelName(model) for model in one_of)
    return Gang(
        GangName(name),
        min_members,
        QueueName(queue),
        priority,
        required,
        role_minimums=roles,
        preferred_level=None if preferred is None else TopologyLevelName(preferred),
        model_order=models,
    )


def topology(*levels: str) -> Topology:
    """Levels, the widest first, each named by the label of the same name."""
    return Topology(tuple(TopologyLevel(TopologyLevelName(level), level) for level in levels))


class Story:
    """One engine and all that happened to it; every verb is one step at the present time."""

    def __init__(
        self,
        policy: str | Policy = "best-fit",
        *,
        seed: int = 0,
        victims: VictimSearch | None = None,
    ) -> None:
        chosen = POLICIES[policy] if isinstance(policy, str) else policy
        self.engine = Engine(chosen, seed=seed, victims=victims)
        self.at_us = 0
        self.told: list[tuple[int, tuple[event.Event, ...]]] = []
        self.said: list[AnyInstruction] = []

    def happen(self, *events: event.Event) -> list[AnyInstruction]:
        """These events, now."""
        self.told.append((self.at_us, events))
        said = self.engine.step(self.at_us, events)
        self.said += said
        return said

    def nodes(self, *nodes: Node) -> list[AnyInstruction]:
        """Nodes appear or change."""
        return self.happen(*(event.NodeSet(one) for one in nodes))

    def lose(self, *names: str) -> list[AnyInstruction]:
        """Nodes vanish."""
        return self.happen(*(event.NodeRemoved(NodeName(name)) for name in names))

    def arrive(self, *pods: Pod) -> list[AnyInstruction]:
        """Pods want to run."""
        return self.happen(*(event.PodAdded(one) for one in pods))

    def depart(self, *uids: str) -> list[AnyInstruction]:
        """Pods end."""
        return self.happen(*(event.PodRemoved(PodUid(uid)) for uid in uids))

    def refuse(self, *uids: str) -> list[AnyInstruction]:
        """Binds of ours do not happen."""
        return self.happen(*(event.BindRefused(PodUid(uid)) for uid in uids))

    def run_on(self, one: Pod, name: str, *devices: str | None) -> list[AnyInstruction]:
        """A pod turns out to run on a node and these devices."""
        ids = tuple(None if held is None else DeviceId(held) for held in devices)
        return self.happen(event.PodBound(one, NodeName(name), ids))

    def gangs(self, *gangs: Gang) -> list[AnyInstruction]:
        """Gangs appear or change."""
        return self.happen(*(event.GangSet(one) for one in gangs))

    def queue(
        self,
        name: str,
        *,
        priority: int = 0,
        strict: bool = False,
        preemption: PreemptionPolicy = CAREFUL,
    ) -> list[AnyInstruction]:
        """A queue appears or changes."""
        described = Queue(QueueName(name), priority, strict, preemption=preemption)
        return self.happen(event.QueueSet(described))

    def told_to_end(self, *uids: str) -> list[AnyInstruction]:
        """Pods that run are told to end, and go on holding what they have."""
        pods = self.engine.state.pods
        known = [pods.pod_at(pods.row_by_uid[PodUid(uid)]) for uid in uids]
        return self.happen(*(event.PodAdded(msgspec.structs.replace(one, leaving=True)) for one in known))

    def refuse_eviction(self, *uids: str, for_s: float = 10) -> list[AnyInstruction]:
        """Evictions of ours do not happen, and will not for some time."""
        until_us = self.at_us + int(for_s * SECOND_US)
        return self.happen(*(event.EvictionRefused(PodUid(uid), until_us) for uid in uids))

    def queues(self, *queues: Queue) -> list[AnyInstruction]:
        """Queues appear or change."""
        return self.happen(*(event.QueueSet(one) for one in queues))

    def namespace(self, name: str, **labels: str) -> list[AnyInstruction]:
        """A namespace appears or has other labels."""
        return self.happen(event.NamespaceSet(name, labels))

    def levels(self, *levels: str) -> list[AnyInstruction]:
        """The topology is set."""
        return self.happen(event.TopologySet(topology(*levels)))

    def wait_s(self, seconds: float) -> list[AnyInstruction]:
        """Time passes, and the engine is asked again."""
        self.at_us += int(seconds * SECOND_US)
        return self.happen()

    def explain(self, uid: str) -> dict[str, int]:
        """The counts by first reason of a waiting pod."""
        verdict = self.engine.explain(PodUid(uid))
        assert verdict is not None, f"{uid} has a place, or is unknown"
        return verdict.first_reasons

    @property
    def binds(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """The last place given to each pod."""
        return binds(self.said)


def binds(said: Iterable[AnyInstruction]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Pods bound by these instructions, with node and devices."""
    return {one.uid: (one.node, one.devices) for one in said if isinstance(one, Bind)}


def placed(said: Iterable[AnyInstruction]) -> list[str]:
    """Pods bound by these instructions, in their order."""
    return [one.uid for one in said if isinstance(one, Bind)]


def evicted(said: Iterable[AnyInstruction]) -> dict[str, str | None]:
    """Victims with their beneficiaries, None for those who end for nobody's sake."""
    return {one.uid: one.beneficiary for one in said if isinstance(one, Evict)}


def nominated(said: Iterable[AnyInstruction]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Pods for which a place is kept by these instructions, with the node and whom they wait for."""
    return {one.uid: (one.node, one.waits_for) for one in said if isinstance(one, Nominated)}


def withdrawn(said: Iterable[AnyInstruction]) -> list[str]:
    """Pods that lost the place that was kept for them."""
    return [one.uid for one in said if isinstance(one, NominationWithdrawn)]


def refused(said: Iterable[AnyInstruction]) -> list[str]:
    """Pods and gangs that were told why they wait."""
    named: list[str] = []
    for one in said:
        if isinstance(one, Unschedulable):
            named.append(one.uid)
        elif isinstance(one, GangUnschedulable):
            named.append(one.gang)
    return named


def problems(said: Iterable[AnyInstruction]) -> list[str]:
    """What was wrong with the events that were rejected."""
    return [one.problem for one in said if isinstance(one, Rejected)]
