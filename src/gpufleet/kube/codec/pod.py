"""A pod as the engine sees it.

Most pods of a fleet are copies: their shapes are worked out once for each different spec and found
again by what was written (``_written``), never by what it was taken to mean. What else belongs to a
pod comes from elsewhere and is given in: its volumes (``volumes``), its gang (``gangs``), its
namespace's labels.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec import neighbours, selectors
from gpufleet.kube.codec.containers import pod_amounts, written_amounts
from gpufleet.kube.codec.cuda import needed_features
from gpufleet.kube.codec.data_needs import MAXIMUM_ASKS, read_data_needs
from gpufleet.kube.codec.data_read import data_of_pod, fluid_labels
from gpufleet.kube.codec.eviction_terms import is_interruptible, preempts
from gpufleet.kube.codec.features import required_features
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.gpu_locality import near_each_other
from gpufleet.kube.codec.gpu_models import accepted_models
from gpufleet.kube.codec.queues import NO_QUEUES, NamespaceQueues, read_queue
from gpufleet.kube.codec.resizing import held_resources
from gpufleet.kube.codec.run_time_limits import read_run_time_max_us
from gpufleet.kube.codec.run_times import read_run_time_us
from gpufleet.kube.codec.share_vendor import vendor_resource
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.shares import read_share
from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.pod import Pod as WirePod
from gpufleet.kube.objects.pod import PodSpec
from gpufleet.kube.objects.structure import Shared
from gpufleet.model.data import NO_DATA, DataAsk, DataNeeds
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.model_errors import InputError
from gpufleet.model.pod import Pod
from gpufleet.model.relations import Relations
from gpufleet.model.requests import Needs, gpu_request, pod_needs
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.taint import Toleration
from gpufleet.model.volumes import Volumes

# Shapes and labels are shared between pods; beyond so many different ones the tables start anew.
MAXIMUM_SHAPES = 20_000
MAXIMUM_LABELS = 20_000
MAXIMUM_TOLERATIONS = 1000
"""More than any pod needs; each is compared with every taint of every node."""

NO_LABELS: Mapping[str, str] = {}


class PodVolumes(msgspec.Struct, frozen=True, cache_hash=True):
    """What the pod's volumes ask: where those that exist can be used, the rest, the drivers that a node must
    have, as features, and the models and datasets that lie in them.
    """

    affinities: tuple[NodeAffinity, ...] = ()
    volumes: Volumes = Volumes()
    features: tuple[str, ...] = ()
    data: tuple[DataAsk, ...] = ()


# Most pods have no volume that scheduling knows: they share this value.
NO_VOLUMES = PodVolumes()


class GangPart(msgspec.Struct, frozen=True):
    """The gang that a pod belongs to, and its part in it."""

    gang: GangName
    role: str = ""


def read_pod(
    pod: WirePod,
    *,
    volumes: PodVolumes = NO_VOLUMES,
    gang: GangPart | None = None,
    namespace_labels: Mapping[str, str] = NO_LABELS,
    queues: NamespaceQueues = NO_QUEUES,
    preemptible: bool = True,
) -> Pod:
    """A pod that waits for us. Raises ObjectError, naming the field, for what cannot be."""
    metadata = pod.metadata
    with of_object("pod", metadata.path):
        if not metadata.uid:
            raise InputError("no uid", field="metadata.uid", expected="what the API server writes")
        if volumes.data and keys.DATA in metadata.annotations:
            # What the pod says itself goes before what its volumes say.
            volumes = msgspec.structs.replace(volumes, data=())
        shape = _with_volumes(read_shape(pod), volumes)
        queue = read_queue(metadata.labels, metadata.annotations, namespace_labels, queues)
        found = _pod(pod, shape, gang, queue, preemptible=preemptible)
        longest_us, said_us, guest = read_run_time_max_us(pod), read_run_time_us(pod), is_interruptible(pod)
        if longest_us is None and said_us is None and not guest:
            return found
        return msgspec.structs.replace(
            found, run_time_max_us=longest_us, run_time_us=said_us, interruptible=guest
        )


def read_placed_pod(
    pod: WirePod,
    *,
    volumes: PodVolumes = NO_VOLUMES,
    gang: GangPart | None = None,
    namespace_labels: Mapping[str, str] = NO_LABELS,
    queues: NamespaceQueues = NO_QUEUES,
    preemptible: bool = True,
) -> Pod:
    """A pod that has a node already, placed by any scheduler: what it takes must be counted.

    Its own words about shares that we do not understand are left out, and its GPUs counted whole.
    Raises ObjectError only where even the amounts that it takes cannot be read.
    """
    try:
        found = read_pod(
            pod,
            volumes=volumes,
            gang=gang,
            namespace_labels=namespace_labels,
            queues=queues,
            preemptible=preemptible,
        )
        return _as_resized(pod, found) if pod.resized else found
    except ObjectError:
        with of_object("pod", pod.metadata.path):
            needs = pod_needs(pod_amounts(pod.spec), several_kinds=True)
        shape = Shape(resources=needs.resources, gpu=needs.gpu)
        return _pod(pod, shape, gang, read_queue({}, {}, NO_LABELS), preemptible=preemptible)


def _as_resized(pod: WirePod, found: Pod) -> Pod:
    """The pod with what it holds; its GPUs are those of its spec, as no resize changes them."""
    try:
        held = held_resources(pod)
    except InputError:
        # The node's word cannot be counted with; what was asked for can.
        return found
    return msgspec.structs.replace(found, shape=msgspec.structs.replace(found.shape, resources=held))


def read_shape(pod: WirePod) -> Shape:
    """The pod's shape without its volumes."""
    written = _written(pod)
    known = _SHAPES.get(written)
    if known is None:
        known = _read_shape(pod)
        if len(_SHAPES) >= MAXIMUM_SHAPES:
            _SHAPES.clear()
        # Equal shapes that were written differently are one from here on.
        known = _EQUAL_SHAPES.setdefault(known, known)
        if len(_EQUAL_SHAPES) > MAXIMUM_SHAPES:
            _EQUAL_SHAPES.clear()
        _SHAPES[written] = known
    return known


_SHAPES: dict[bytes, Shape] = {}
"""The shape that was read from each written form, so that pods of one template are read once."""

# Equal shapes that were written differently, as one object.
_EQUAL_SHAPES: dict[Shape, Shape] = {}
# Shapes with their volumes, each made once.
_WITH_VOLUMES: dict[tuple[Shape, PodVolumes], Shape] = {}
_LABELS = Shared(MAXIMUM_LABELS)
_ENCODER = msgspec.msgpack.Encoder()
# The annotations and labels that decide the shape.
_SHAPE_KEYS = (
    keys.GPU_FRACTION,
    keys.GPU_MEMORY,
    keys.KAI_FRACTION,
    keys.KAI_MEMORY,
    keys.KAI_DEVICES,
    keys.KAI_CONTAINER,
    keys.GPU_MODELS,
    keys.GPUS_WITHIN,
    keys.DATA,
    keys.DATA_SIZE,
    keys.DATA_POLICY,
    keys.KSERVE_SOURCE,
    keys.VOLCANO_NUMA_POLICY,
    keys.HAMI_USE_MODEL,
    keys.HAMI_AVOID_MODEL,
    keys.CUDA_VERSION,
)
_SHAPE_LABELS = (keys.GPU_FRACTION, keys.GPU_MEMORY)
"""Our share of a GPU may stand in labels too, so these labels also decide the shape."""


def _pod(pod: WirePod, shape: Shape, gang: GangPart | None, queue: Any, *, preemptible: bool) -> Pod:
    metadata = pod.metadata
    with inside("metadata.creationTimestamp"):
        created_at_us = microseconds(metadata.creation_timestamp)
    return Pod(
        uid=PodUid(metadata.uid),
        shape=shape,
        name=metadata.path,
        queue=queue,
        priority=pod.spec.priority or 0,
        gang=None if gang is None else gang.gang,
        created_at_us=created_at_us,
        namespace=metadata.namespace,
        labels=_LABELS.one(tuple(sorted(metadata.labels.items()))),
        role="" if gang is None else gang.role,
        leaving=metadata.deletion_timestamp is not None,
        preemptible=preemptible,
        replaceable=_is_replaceable(metadata.controller),
        preempts=preempts(pod.spec),
    )


def _is_replaceable(controller: OwnerReference | None) -> bool:
    """True if a controller makes another pod, on whatever node; a static pod's owner is its own node."""
    return controller is not None and controller.kind != "Node"


def _written(pod: WirePod) -> bytes:
    """Everything that the shape depends on, as it was written."""
    spec, metadata = pod.spec, pod.metadata
    seen: Any = None
    if neighbours.has_neighbours(spec):
        looked_at = neighbours.keys_looked_at(spec)
        seen = (metadata.namespace, [item for item in metadata.labels.items() if item[0] in looked_at])
    annotations, labels = metadata.annotations, metadata.labels
    return _ENCODER.encode(
        (
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            [annotations.get(key) for key in _SHAPE_KEYS] if annotations else None,
            [*(labels.get(key) for key in _SHAPE_LABELS), *fluid_labels(labels)] if labels else None,
            seen,
        )
    )


def _read_shape(pod: WirePod) -> Shape:
    spec, metadata = pod.spec, pod.metadata
    looked_at = neighbours.keys_looked_at(spec)
    labels = {name: value for name, value in metadata.labels.items() if name in looked_at}
    needs, gpu = _needs(pod)
    cuda = needed_features(pod)
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    return Shape(
        resources=needs.resources,
        gpu=gpu,
        node_selector=selectors.node_selector(spec.node_selector, "spec.nodeSelector"),
        affinity=selectors.node_affinity(affinity, "spec.affinity.nodeAffinity"),
        tolerations=_tolerations(spec),
        features=tuple(sorted({*required_features(spec), *cuda})),
        gpu_resource=needs.gpu_resource or (vendor_resource(pod, cuda) if gpu.count else ""),
        relations=_relations(pod, labels),
    )


def _relations(pod: WirePod, labels: Mapping[str, str]) -> Relations:
    """What the pod asks of its neighbours, and of data on nodes."""
    relations = neighbours.read_relations(pod.spec, pod.metadata.namespace, labels)
    data = read_data_needs(pod.metadata.annotations)
    if data == NO_DATA:
        data = DataNeeds(data_of_pod(pod))
    return relations if data == NO_DATA else msgspec.structs.replace(relations, data=data)


def _needs(pod: WirePod) -> tuple[Needs, GpuRequest]:
    with inside("spec"):
        needs = pod_needs(pod_amounts(pod.spec))
    share = read_share(pod.metadata.labels, pod.metadata.annotations, written_amounts(pod.spec))
    accepted = accepted_models(pod.metadata.annotations)
    gpu = needs.gpu
    if share is not None:
        if gpu.count:
            problem = f"whole GPUs ({needs.gpu_resource}) and shares of GPUs in one pod"
            raise InputError(problem, field="spec", expected=f"{keys.GPU_SHARE} alone")
        slots = dict(needs.resources.other)[keys.GPU_SHARE]
        gpu = gpu_request(slots, share)
    if accepted.models and gpu.count:
        gpu = msgspec.structs.replace(gpu, models=accepted.models, model_order=accepted.order)
    within = near_each_other(pod.metadata.annotations, gpu)
    return needs, gpu if within is gpu.within else msgspec.structs.replace(gpu, within=within)


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    if len(spec.tolerations) > MAXIMUM_TOLERATIONS:
        problem = f"{len(spec.tolerations)} entries"
        raise InputError(problem, field="spec.tolerations", expected=f"at most {MAXIMUM_TOLERATIONS}")
    found = []
    for position, one in enumerate(spec.tolerations):
        with inside(f"spec.tolerations[{position}]"):
            found.append(Toleration(one.key, one.operator, one.value, one.effect))
    order = dict.fromkeys(found)
    return tuple(sorted(order, key=lambda one: (one.key, one.operator, one.value, one.effect)))


def _with_volumes(shape: Shape, volumes: PodVolumes) -> Shape:
    if volumes == NO_VOLUMES:
        return shape
    known = _WITH_VOLUMES.get((shape, volumes))
    if known is None:
        known = msgspec.structs.replace(
            shape,
            volume_affinities=volumes.affinities,
            features=tuple(sorted({*shape.features, *volumes.features})),
            relations=msgspec.structs.replace(
                shape.relations, volumes=volumes.volumes, data=_with_data(shape.relations.data, volumes.data)
            ),
        )
        if len(_WITH_VOLUMES) >= MAXIMUM_SHAPES:
            _WITH_VOLUMES.clear()
        _WITH_VOLUMES[shape, volumes] = known
    return known


def _with_data(data: DataNeeds, more: tuple[DataAsk, ...]) -> DataNeeds:
    """What the pod reads, and what lies in its volumes."""
    if not more:
        return data
    asks = tuple(dict.fromkeys((*data.asks, *more)))[:MAXIMUM_ASKS]
    return msgspec.structs.replace(data, asks=asks)
