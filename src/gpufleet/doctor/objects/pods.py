"""A pod as checks read it: what it asks for, where it is, and what it waits for."""

import datetime as dt
from dataclasses import dataclass

from gpufleet.doctor.objects.status import ReadCondition, age_s, conditions
from gpufleet.kube.meanings.group_names import named_groups
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.source.fields import Field
from gpufleet.model.worked_out_once import worked_out_once

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class ContainerState:
    """What the kubelet tells of a container. ``reason`` is that of its waiting or of its last end."""

    name: str
    waits_for: str
    message: str
    restarts: int
    last_end: str


@dataclass(frozen=True)
class PodView:
    """A pod."""

    manifest: Manifest

    @property
    def title(self) -> str:
        """How people name it."""
        return self.manifest.title

    @property
    def root(self) -> Field:
        """The whole object of the pod."""
        return self.manifest.root

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.manifest.namespace

    @worked_out_once
    def template(self) -> PodTemplate:
        """The pod's template in the form that rules of ``lint`` read."""
        return self.manifest.templates[0]

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.manifest.labels

    @worked_out_once
    def node(self) -> str:
        """The node that it was given, empty if none."""
        return self.root.text_at("spec", "nodeName") or ""

    @worked_out_once
    def phase(self) -> str:
        """The pod's phase."""
        return self.root.text_at("status", "phase") or ""

    @worked_out_once
    def has_ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.phase in _ENDED

    @worked_out_once
    def is_leaving(self) -> bool:
        """Whether it was told to end."""
        return self.root.text_at("metadata", "deletionTimestamp") is not None

    @worked_out_once
    def waits(self) -> bool:
        """Whether it was given no node yet, and still wants one."""
        return not self.node and not self.has_ended and not self.is_leaving

    @worked_out_once
    def asks_for_gpu(self) -> bool:
        """Whether it is to be given a GPU or a part of one."""
        return self.template.asks_for_gpu

    @worked_out_once
    def asked_names(self) -> frozenset[str]:
        """The GPU resources it asks for, by name."""
        return frozenset(name for one in self.template.all_containers for name in one.gpu_names)

    @worked_out_once
    def scheduler(self) -> str:
        """The scheduler that is to find a node for it."""
        return self.root.text_at("spec", "schedulerName") or "default-scheduler"

    @worked_out_once
    def owner(self) -> str:
        """What made it, as "Job train"; itself if nothing did."""
        for one in self.root.items_at("metadata", "ownerReferences"):
            if one.text_at("controller") == "true":
                return f"{one.text_at('kind')} {one.text_at('name')}"
        return f"Pod {self.manifest.name}"

    @worked_out_once
    def group_names(self) -> frozenset[str]:
        """The PodGroups that it names, in the words of any scheduler."""
        native = self.root.text_at("spec", "schedulingGroup", "podGroupName")
        named = named_groups(self.template.labels, self.template.annotations, native)
        return frozenset(name for way, name in named if way.api_group and name)

    @worked_out_once
    def conditions(self) -> dict[str, ReadCondition]:
        """The pod's conditions by type."""
        return conditions(self.root.at("status"))

    @worked_out_once
    def is_ready(self) -> bool:
        """Whether all its containers are well."""
        ready = self.conditions.get("Ready")
        return ready is not None and ready.is_true

    @worked_out_once
    def verdict(self) -> str:
        """What the pod's scheduler said of it, empty if nothing."""
        found = self.conditions.get("PodScheduled")
        return found.message if found is not None and not found.is_true else ""

    def age_s(self, now: dt.datetime) -> float:
        """Seconds since it was made; 0 where that is not told."""
        return age_s(self.root.at("metadata", "creationTimestamp"), now) or 0.0

    @worked_out_once
    def containers(self) -> tuple[ContainerState, ...]:
        """What the kubelet tells of its containers."""
        parts = ("initContainerStatuses", "containerStatuses")
        return tuple(_state(one) for part in parts for one in self.root.items_at("status", part))


def logs_command(pod: PodView) -> str:
    """What shows the last words of a pod's container in trouble; empty if none has ever run."""
    bad = [one for one in pod.containers if one.waits_for or one.last_end or one.restarts]
    ran = [one for one in bad if one.last_end or one.restarts or one.waits_for == "CrashLoopBackOff"]
    command = f"kubectl logs -n {pod.namespace} {pod.manifest.name}"
    if ran:
        return f"{command} -c {ran[0].name} --previous"
    return "" if bad else f"{command} --all-containers"


def _state(field: Field) -> ContainerState:
    waiting = field.at("state", "waiting")
    ended = field.at("state", "terminated")
    # A container that waits for its next start is explained by its last end.
    last = ended if ended.exists else field.at("lastState", "terminated")
    return ContainerState(
        field.text_at("name") or "",
        waiting.text_at("reason") or "",
        waiting.text_at("message") or last.text_at("message") or "",
        field.at("restartCount").integer or 0,
        last.text_at("reason") or "",
    )
