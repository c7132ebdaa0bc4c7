"""What a GpuProject means: a project of the model.

One object does not show whether another project names the same namespaces, or whether they belong to
others: ``operator.projects`` looks at what is there.
"""

from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.codec.written_words import check_length, read_word
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import fleet_queues as queue_wire
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.model.gpu_project import (
    GpuProject,
    ImageTerms,
    ImageTreatment,
    OwnerLimits,
    OwnQueue,
    PodSecurity,
    ProjectIdleRule,
    ProjectMember,
    ProjectRole,
    QueueQuota,
)
from gpufleet.model.identifiers import GpuProjectName, QueueName
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError

# The limits of the definition of GpuProject, checked again: an object may be older than the definition.
MAXIMUM_NAMESPACES = 64
MAXIMUM_MEMBERS = 512
MAXIMUM_AMOUNTS = 64
MAXIMUM_NETWORKS = 64
MAXIMUM_TAINTS = 64
NAME_LENGTH_MAX = 63
"""A project's name is the value of a label on all that belongs to it."""


def read_gpu_project(found: wire.GpuProject) -> GpuProject:
    """What the object means. Raises ObjectError, naming the field, for what cannot be."""
    name, spec = found.metadata.name, found.spec
    with of_object("GpuProject", name):
        if not is_subdomain(name) or len(name) > NAME_LENGTH_MAX:
            expected = f"a DNS name of at most {NAME_LENGTH_MAX} characters"
            raise ObjectError("not a project's name", field="metadata.name", value=name, expected=expected)
        with inside("spec"):
            _check_lengths(spec)
            return GpuProject(
                name=GpuProjectName(name),
                team=spec.team or name,
                namespaces=spec.namespaces,
                members=_members(spec),
                queue=_queue(name, spec),
                own_queue=_own_queue(name, spec),
                owner_limits=_owner_limits(spec.owner_limits),
                namespace_quota=_amounts(spec.namespace_quota),
                container_defaults=_amounts(spec.container_defaults),
                pod_security=read_word(spec.pod_security, PodSecurity, "podSecurity"),
                egress=spec.network.egress,
                ingress_namespaces=spec.network.ingress_namespaces,
                images=_images(spec.images),
                idle_rule=_idle_rule(spec.idle_rule),
                tolerated_taints=spec.tolerated_taints,
            )


def _check_lengths(spec: wire.GpuProjectSpec) -> None:
    check_length(len(spec.namespaces), MAXIMUM_NAMESPACES, "namespaces")
    check_length(len(spec.members), MAXIMUM_MEMBERS, "members")
    check_length(len(spec.namespace_quota), MAXIMUM_AMOUNTS, "namespaceQuota")
    check_length(len(spec.network.egress), MAXIMUM_NETWORKS, "network.egress")
    check_length(len(spec.network.ingress_namespaces), MAXIMUM_NETWORKS, "network.ingressNamespaces")
    check_length(len(spec.tolerated_taints or ()), MAXIMUM_TAINTS, "toleratedTaints")


def _members(spec: wire.GpuProjectSpec) -> tuple[ProjectMember, ...]:
    found = []
    for position, one in enumerate(spec.members):
        with inside(f"members[{position}]"):
            found.append(ProjectMember(read_word(one.role, ProjectRole, "role"), one.user, one.group))
    return tuple(found)


def _owner_limits(written: wire.OwnerLimitsSpec) -> OwnerLimits:
    with inside("ownerLimits"):
        return OwnerLimits(written.namespaces_max, written.namespace_prefix)


def _queue(project: str, spec: wire.GpuProjectSpec) -> QueueName | None:
    # An own queue without a name has that of the project.
    name = spec.queue or ("" if spec.own_queue is None else project)
    if not name:
        return None
    # A namespace names its queue by a label, whose values are shorter than names of objects.
    if not is_subdomain(name) or len(name) > NAME_LENGTH_MAX:
        expected = f"a FleetQueue's name of at most {NAME_LENGTH_MAX} characters"
        raise InputError("not a queue's name", field="queue", value=name, expected=expected)
    return QueueName(name)


def _own_queue(project: str, spec: wire.GpuProjectSpec) -> OwnQueue | None:
    written = spec.own_queue
    if written is None:
        return None
    quotas = tuple(
        QueueQuota(one.resource, _text(one.nominal), _text(one.borrowing_limit), _text(one.hard_limit))
        for one in written.quotas
    )
    _check_own_queue(spec.queue or project, written)
    return OwnQueue(QueueName(written.parent) if written.parent else None, quotas)


def _check_own_queue(name: str, written: wire.OwnQueueSpec) -> None:
    """Raises ObjectError for what the FleetQueue could not say."""
    quotas = tuple(
        queue_wire.QuotaSpec(
            one.resource,
            nominal=one.nominal,
            borrowing_limit=one.borrowing_limit,
            hard_limit=one.hard_limit,
        )
        for one in written.quotas
    )
    spec = queue_wire.FleetQueueSpec(parent=written.parent or None, quotas=quotas)
    try:
        read_fleet_queue(queue_wire.FleetQueue(Metadata(name=name), spec))
    except ObjectError as error:
        field = f"ownQueue.{error.field.removeprefix('spec.')}"
        raise ObjectError(error.problem, field=field, value=error.value, expected=error.expected) from error


def _text(amount: int | str | None) -> str:
    return "" if amount is None else str(amount)


def _amounts(written: dict[str, int | str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, str(amount)) for key, amount in written.items()))


def _images(written: wire.ImagesSpec | None) -> ImageTerms | None:
    if written is None:
        return None
    with inside("images"):
        return ImageTerms(read_word(written.policy, ImageTreatment, "policy"), written.registries)


def _idle_rule(written: wire.IdleRuleSpec | None) -> ProjectIdleRule | None:
    if written is None:
        return None
    after_us = read_duration(written.after, "idleRule.after")
    warning_us = None if written.warning is None else read_duration(written.warning, "idleRule.warning")
    return ProjectIdleRule(after_us, warning_us)
