"""What is told of projects, and what a new one is made of; ``questions`` asks, ``cli`` lays it out."""

from typing import Any

import msgspec

from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.resources import GPU_PROJECTS
from gpufleet.model.gpu_project import ProjectRole


class MemberAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member; either ``user`` or ``group``."""

    role: str
    user: str = ""
    group: str = ""


class QuotaAnswer(msgspec.Struct, frozen=True):
    """What a namespace uses of one amount of its quota; None where it was not counted yet."""

    namespace: str
    key: str
    used: str | None
    hard: str


class ProjectAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """One project as it is told. ``ready`` None: no operator has seen this version of it.

    ``left`` are namespaces that it names no more and that are still there.
    """

    name: str
    team: str
    namespaces: tuple[str, ...]
    left: tuple[str, ...]
    members: tuple[MemberAnswer, ...]
    queue: str
    namespaces_max: int
    namespace_prefix: str
    ready: bool | None
    reason: str
    message: str
    quotas: tuple[QuotaAnswer, ...] = ()
    notes: tuple[str, ...] = ()


class Projects(msgspec.Struct, frozen=True):
    """Projects, and what is to be known of the answer."""

    schema: str
    projects: tuple[ProjectAnswer, ...]
    notes: tuple[str, ...] = ()


class NewProject(msgspec.Struct, frozen=True):
    """What a project is made with. ``gpus`` is the nominal quota of a queue of its own."""

    name: str
    namespaces: tuple[str, ...]
    owners: tuple[str, ...] = ()
    owner_groups: tuple[str, ...] = ()
    gpus: int | None = None
    parent: str = ""
    queue: str = ""
    namespaces_max: int = 0
    quota: tuple[tuple[str, str], ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()

    def manifest(self) -> dict[str, Any]:
        """The project as an object of the API."""
        role = ProjectRole.OWNER.value
        owners = [
            *({"user": one, "role": role} for one in self.owners),
            *({"group": one, "role": role} for one in self.owner_groups),
        ]
        spec: dict[str, Any] = {"namespaces": list(self.namespaces or (self.name,)), "members": owners}
        if self.namespaces_max:
            spec["ownerLimits"] = {"namespacesMax": self.namespaces_max}
        if self.queue:
            spec["queue"] = self.queue
        if self.gpus is not None or self.parent:
            quotas = [] if self.gpus is None else [{"resource": "gpu", "nominal": str(self.gpus)}]
            spec["ownQueue"] = {"quotas": quotas, **({"parent": self.parent} if self.parent else {})}
        for field, pairs in (("namespaceQuota", self.quota), ("containerDefaults", self.defaults)):
            if pairs:
                spec[field] = dict(pairs)
        kind = {"apiVersion": GPU_PROJECTS.api_version, "kind": GPU_PROJECTS.name}
        return {**kind, "metadata": {"name": self.name}, "spec": spec}


def project_answer(found: wire.GpuProject) -> ProjectAnswer:
    """What is told of a project as it stands, whether or not it can be."""
    spec, status = found.spec, wire.project_status_of(found)
    name = found.metadata.name
    condition = next((one for one in status.conditions if one.type == wire.READY), None)
    is_current = status.observed_generation == found.metadata.generation
    own = "" if spec.own_queue is None else name
    return ProjectAnswer(
        name=name,
        team=spec.team or name,
        namespaces=spec.namespaces,
        left=tuple(one for one in status.namespaces if one not in spec.namespaces),
        members=tuple(MemberAnswer(one.role, one.user, one.group) for one in spec.members),
        queue=spec.queue or own,
        namespaces_max=spec.owner_limits.namespaces_max,
        namespace_prefix=spec.owner_limits.namespace_prefix or f"{name}-",
        ready=None if condition is None or not is_current else condition.status == "True",
        reason="" if condition is None or not is_current else condition.reason,
        message="" if condition is None or not is_current else condition.message,
    )
