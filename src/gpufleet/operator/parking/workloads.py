"""The kinds of work that can be parked, as they come over the wire, and what parking reads of each.

A Deployment and a StatefulSet ask for no pod with ``replicas: 0``. A Notebook of Kubeflow and an
InferenceService of KServe have an annotation for it, and their controllers keep the rest. A server of
JupyterHub is a pod without a controller: it is evicted, and its hub starts it anew. What a controller
made is no workload of its own: Kubeflow undoes what is done to the StatefulSet of a Notebook. ``patches``
writes these objects, ``work_pods`` finds their pods.
"""

import enum
from collections.abc import Mapping

import msgspec

from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.meanings.group_names import named_groups
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, NOTEBOOKS, PODS, STATEFUL_SETS, Kind
from gpufleet.model.model_errors import InputError
from gpufleet.operator.parking.activity import NO_SESSIONS, Sessions
from gpufleet.operator.parking.parking_keys import (
    KSERVE_STOP,
    KUBEFLOW_ACTIVITY,
    KUBEFLOW_CHECKED,
    KUBEFLOW_STOPPED,
    LAST_ACTIVITY,
    PARK_AFTER,
    PARKED_VALUE,
    STAMP,
    WAKE,
)
from gpufleet.operator.parking.parking_step import SeenWorkload, WorkloadKey
from gpufleet.operator.parking.rule import IdleRule, read_keep_until, read_rule
from gpufleet.operator.parking.stamp import ParkingStamp, read_stamp
from gpufleet.operator.parking.work_pods import JUPYTERHUB_KIND

REPLICAS_DEFAULT = 1
"""What the API server takes where a workload names no number."""

DELETE = "Delete"


class WayToPark(enum.Enum):
    """What makes a kind ask for no pod."""

    REPLICAS = "replicas"
    KUBEFLOW = "annotation of Kubeflow"
    KSERVE = "annotation of KServe"
    EVICTION = "eviction"


WAYS: Mapping[Kind, WayToPark] = {
    DEPLOYMENTS: WayToPark.REPLICAS,
    STATEFUL_SETS: WayToPark.REPLICAS,
    NOTEBOOKS: WayToPark.KUBEFLOW,
    INFERENCE_SERVICES: WayToPark.KSERVE,
}
"""Every kind that can be parked and woken."""

SERVERS = PODS
"""Servers of JupyterHub. Only their hub brings them back, so that nothing is remembered of them."""

UNDER_NAMESPACE_RULES = frozenset({NOTEBOOKS, INFERENCE_SERVICES, SERVERS})
"""Kinds that a rule of their namespace concerns; others need one of their own."""

UNINSTALLED = frozenset({NOTEBOOKS, INFERENCE_SERVICES})
"""Kinds of other projects, which a cluster may lack."""


class TemplateMetadata(Structure, frozen=True):
    """What a template gives its pods."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class PodTemplate(Structure, frozen=True):
    """The pods of a workload; their spec is kept as it came."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ClaimRetention(Structure, frozen=True):
    """What a StatefulSet does with claims of pods that it needs no more."""

    when_scaled: str = "Retain"


class WorkloadSpec(Structure, frozen=True):
    """What parking reads of a spec."""

    replicas: int | None = None
    template: PodTemplate = PodTemplate()
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()


class Workload(Structure, frozen=True):
    """A workload of one of the kinds of ``WAYS``."""

    metadata: Metadata
    spec: WorkloadSpec = WorkloadSpec()


def key_of(kind: Kind, workload: Workload) -> WorkloadKey:
    """A workload's kind, namespace and name."""
    name = JUPYTERHUB_KIND if kind is SERVERS else kind.name
    return WorkloadKey(name, workload.metadata.namespace, workload.metadata.name)


def way_of(kind: Kind) -> WayToPark:
    """What makes this kind ask for no pod."""
    return WayToPark.EVICTION if kind is SERVERS else WAYS[kind]


def is_made_by_another(workload: Workload) -> bool:
    """Whether a controller keeps it, so that a change would be undone."""
    return workload.metadata.controller is not None


def is_stopped(kind: Kind, workload: Workload) -> bool:
    """Whether it asks for no pod."""
    annotations = workload.metadata.annotations
    match way_of(kind):
        case WayToPark.EVICTION:
            return workload.metadata.deletion_timestamp is not None
        case WayToPark.REPLICAS:
            return replicas_of(kind, workload) == 0
        case WayToPark.KUBEFLOW:
            return KUBEFLOW_STOPPED in annotations
        case WayToPark.KSERVE:
            return annotations.get(KSERVE_STOP) == PARKED_VALUE


def replicas_of(kind: Kind, workload: Workload) -> int | None:
    """How many pods it asks for; None where its controller keeps that."""
    if way_of(kind) is not WayToPark.REPLICAS:
        return None
    return REPLICAS_DEFAULT if workload.spec.replicas is None else workload.spec.replicas


def problem_of(workload: Workload) -> str:
    """Why parking it would lose more than memory; "" where it would not."""
    if workload.spec.persistent_volume_claim_retention_policy.when_scaled == DELETE:
        return "its volumes would be deleted: persistentVolumeClaimRetentionPolicy.whenScaled is Delete"
    return ""


def unit_of(kind: Kind, workload: Workload) -> str:
    """What it is warned, parked and woken together with: its gang, or itself alone."""
    metadata, template = workload.metadata, workload.spec.template.metadata
    labels = {**metadata.labels, **template.labels}
    annotations = {**metadata.annotations, **template.annotations}
    return unit_of_pod(metadata.namespace, labels, annotations) or str(key_of(kind, workload))


def unit_of_pod(namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The gang that a pod names, "" without one."""
    group = next(named_groups(labels, annotations, None), None)
    return "" if group is None else f"gang {namespace}/{group[1]}"


def has_rule(kind: Kind, workload: Workload, of_namespace: Mapping[str, str]) -> bool:
    """Whether an annotation says when it is parked, rightly or wrongly written."""
    own = workload.metadata.annotations
    return PARK_AFTER in own or (kind in UNDER_NAMESPACE_RULES and PARK_AFTER in of_namespace)


def rule_of(kind: Kind, workload: Workload, of_namespace: Mapping[str, str]) -> IdleRule | None:
    """A workload's rule. Raises InputError, which names the annotation."""
    inherited = of_namespace if kind in UNDER_NAMESPACE_RULES else {}
    return read_rule(workload.metadata.annotations, inherited)


def stamp_of(workload: Workload) -> ParkingStamp | None:
    """A workload's stamp. Raises InputError for a text that is none."""
    return read_stamp(workload.metadata.annotations.get(STAMP), f"metadata.annotations[{STAMP}]")


def sessions_of(workload: Workload) -> Sessions:
    """When a person was last seen at work in it. Raises InputError for what is no time."""
    annotations = workload.metadata.annotations
    last_us = max(_moment(annotations, LAST_ACTIVITY), _moment(annotations, KUBEFLOW_ACTIVITY))
    checked_us = _moment(annotations, KUBEFLOW_CHECKED)
    return Sessions(last_us, checked_us) if last_us or checked_us else NO_SESSIONS


def _moment(annotations: Mapping[str, str], key: str) -> int:
    text = annotations.get(key)
    if not text:
        return 0
    try:
        return microseconds(text)
    except InputError as error:
        field = f"metadata.annotations[{key}]"
        raise InputError(error.problem, field=field, value=text, expected=error.expected) from None


def seen_workload(kind: Kind, workload: Workload, of_namespace: Mapping[str, str]) -> SeenWorkload:
    """What its object says of it; nothing is known of its pods yet.

    An annotation that cannot be read is its problem. A stamp that cannot be read raises InputError, because
    nothing is known then of how it is to come back.
    """
    stamp = stamp_of(workload)
    problem, rule, keep_until_us = problem_of(workload), None, 0
    try:
        rule = rule_of(kind, workload, of_namespace)
        keep_until_us = read_keep_until(workload.metadata.annotations)
        # Read for its error alone: work with a time that cannot be read must not be parked.
        sessions_of(workload)
    except InputError as error:
        problem = problem or str(error)
    return SeenWorkload(
        key_of(kind, workload),
        unit_of(kind, workload),
        rule,
        problem,
        keep_until_us,
        WAKE in workload.metadata.annotations,
        stamp,
        replicas_of(kind, workload),
        is_stopped(kind, workload),
    )
