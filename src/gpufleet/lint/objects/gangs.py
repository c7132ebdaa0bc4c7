"""Pods that start together or not at all: where the least number stands, and which pods it counts.

It is written by operators of training jobs, PodGroups of Kubernetes, scheduler-plugins, Volcano and KAI, our
own annotations, a minimum on the pods of one controller (docs/pod-inputs.md), and Kueue, which lets a job in
whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.kube import keys
from gpufleet.kube.meanings.group_names import (
    ANNOTATIONS,
    BARE_MINIMUMS,
    GROUP_NAMES,
    LABELS,
    LEAST_MEMBERS,
    NATIVE,
)
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.source.fields import Field

# Where kinds of jobs say how many pods must start together.
_OPERATORS = (("spec", "minAvailable"), ("spec", "runPolicy", "schedulingPolicy", "minAvailable"))
_POD_GROUPS = {way.api_group: way for way in GROUP_NAMES if way.api_group}
_LEAST = {NATIVE: ("schedulingPolicy", "gang", "minCount")}
"""Where a PodGroup says its least number, if not in ``minMember``."""

# Keys by which pods of one controller say how many of them start together.
_MINIMA = (*BARE_MINIMUMS, keys.KUEUE_MIN_PARALLELISM)
_WHOLE = frozenset({"batch", "jobset.x-k8s.io", "kubeflow.org"})
"""API groups of the jobs of which Kueue lets all pods in at once."""


@dataclass(frozen=True)
class Member:
    """Pods of one template; ``is_bare`` where no controller makes them: others may be written elsewhere."""

    template: PodTemplate
    count: int
    is_bare: bool = False


@dataclass(frozen=True)
class Gang:
    """``least`` pods of ``members`` start together. ``queue`` is where its object says that they wait."""

    field: Field
    least: int
    members: tuple[Member, ...]
    queue: Field | None = None

    @property
    def count(self) -> int:
        """How many members there are."""
        return sum(one.count for one in self.members)

    @property
    def is_open(self) -> bool:
        """Whether it may have members that are not known here."""
        return not self.members or any(one.is_bare for one in self.members)

    def wanted(self, member: Member) -> int:
        """How many pods of this template start at least, however the others are chosen."""
        return max(0, self.least - (self.count - member.count))


def is_pod_group(manifest: Manifest) -> bool:
    """Whether the object gathers pods of others."""
    return manifest.kind == "PodGroup" and manifest.group in _POD_GROUPS


def may_be_gang(manifest: Manifest) -> bool:
    """Whether something of the object speaks of a gang."""
    return (
        is_pod_group(manifest)
        or _of_operator(manifest) is not None
        or _queue_of_whole(manifest) is not None
        or any(
            _said(manifest, one, key).exists for one in manifest.templates for key in (keys.GANG, *_MINIMA)
        )
        or any(_said(manifest, one, keys.KUEUE_GROUP_TOTAL).exists for one in manifest.templates)
    )


def gangs_of(manifest: Manifest, context: Context) -> Iterator[Gang]:
    """The gangs that the object makes, in the first words that it uses."""
    if is_pod_group(manifest):
        yield from _pod_group(manifest, context)
        return
    own = tuple(_member(manifest, one) for one in manifest.templates)
    stated = _of_operator(manifest)
    if stated is not None:
        yield Gang(stated, stated.integer or 0, own)
        return
    found = False
    for template in manifest.templates:
        gang = _named(manifest, template, context) or _of_controller(manifest, template)
        if gang is not None:
            found = True
            yield gang
    queue = _queue_of_whole(manifest)
    # A queue that admits a workload as a whole starts all of its pods together.
    if queue is not None and not found:
        yield Gang(queue, sum(one.count for one in own), own)


def _of_operator(manifest: Manifest) -> Field | None:
    """Where a job says how many of its pods start together, if it does."""
    fields = (manifest.root.at(*path) for path in _OPERATORS if manifest.kind.endswith("Job"))
    return next((one for one in fields if one.integer is not None), None)


def _pod_group(group: Manifest, context: Context) -> Iterator[Gang]:
    way = _POD_GROUPS[group.group]
    field = group.root.at("spec", *_LEAST.get(way, ("minMember",)))
    members = tuple(
        _member(one, template)
        for one, template in context.named_group(way, group.name)
        if _beside(one, group)
    )
    queue = group.root.at("spec", "queue")
    if field.integer is not None:
        yield Gang(field, field.integer, members, queue if queue.exists else None)
    for key, name, least in _parts(group):
        of_part = tuple(one for one in members if _part_of(one.template, key) == name)
        yield Gang(least, least.integer or 0, of_part)


def _parts(group: Manifest) -> Iterator[tuple[str, str, Field]]:
    """Parts of a group with a least number of their own: tasks of Volcano, subgroups of KAI."""
    for task, least in group.root.at("spec", "minTaskMember").entries():
        yield keys.VOLCANO_TASK, task, least
    for one in group.root.at("spec", "subGroups").items():
        if one.at("minMember").integer is not None:
            yield keys.KAI_SUBGROUP, one.text_at("name") or "", one.at("minMember")


def _part_of(template: PodTemplate, key: str) -> str | None:
    if key == keys.VOLCANO_TASK:
        return template.annotation(key) or template.role
    return template.metadata.text_at("labels", key)


def _named(manifest: Manifest, template: PodTemplate, context: Context) -> Gang | None:
    """The gang by a name that pods of one namespace share: ours, or Kueue's group of plain pods."""
    for way, least_key in LEAST_MEMBERS.items():
        name = _said(manifest, template, way.keys[0])
        if name.text is None:
            continue
        members = tuple(
            _member(one, each) for one, each in context.named_group(way, name.text) if _beside(one, manifest)
        )
        least = _said(manifest, template, least_key)
        if least.exists:
            return Gang(least, _number(least), members)
        # Without a number a Job, or a StatefulSet that starts its pods at once, counts its own.
        parallel = manifest.root.text_at("spec", "podManagementPolicy") == "Parallel"
        if manifest.kind == "Job" or (manifest.kind == "StatefulSet" and parallel):
            return Gang(name, _member(manifest, template).count, members)
    return None


def _of_controller(manifest: Manifest, template: PodTemplate) -> Gang | None:
    """The gang of the pods of one controller, by a bare minimum on them."""
    for key in _MINIMA:
        least = _said(manifest, template, key)
        if least.exists:
            return Gang(least, _number(least), (_member(manifest, template),))
    return None


def _queue_of_whole(manifest: Manifest) -> Field | None:
    """Kueue's queue of a job that it lets in as a whole."""
    if manifest.group not in _WHOLE or not manifest.kind.endswith(("Job", "JobSet")):
        return None
    field = manifest.root.at("metadata", "labels", keys.KUEUE_QUEUE)
    return field if field.exists else None


def _said(manifest: Manifest, template: PodTemplate, key: str) -> Field:
    """Where the pods, or else their object, have this annotation or label."""
    places = (template.metadata, manifest.root.at("metadata"))
    fields = [place.at(part, key) for place in places for part in (ANNOTATIONS, LABELS)]
    return next((one for one in fields if one.exists), fields[0])


def _number(field: Field) -> int:
    text = field.text or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _beside(one: Manifest, other: Manifest) -> bool:
    """Whether both may be in one namespace; what names none goes where kubectl is told."""
    return not one.namespace or not other.namespace or one.namespace == other.namespace


def _member(manifest: Manifest, template: PodTemplate) -> Member:
    count = template.replicas or 0
    completions = manifest.root.at("spec", "completions").integer
    if (manifest.group, manifest.kind) == ("batch", "Job") and completions is not None:
        # No more pods run at once than have still to complete.
        count = min(count, completions)
    return Member(template, count, is_bare=manifest.kind == "Pod")
