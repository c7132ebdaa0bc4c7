"""GPU024: a gang waits for more members than there will ever be, or than cluster or quota can hold."""

from collections.abc import Iterator

from gpufleet.kube import keys
from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.gangs import Gang, gangs_of, is_pod_group, may_be_gang
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.queue_quotas import Lacking
from gpufleet.lint.rule import (
    CLUSTER_NEEDED,
    Rule,
    RuleFinding,
    Scope,
    Severity,
    Unjudged,
    cluster_needed,
)
from gpufleet.lint.source.fields import Field
from gpufleet.model.phrases import counted

_MEMBERS_NEEDED = "the pods of the gang, linted together with it (gpufleet lint FILE FILE)"
_OWN_QUEUES = {"scheduling.volcano.sh": keys.VOLCANO_QUEUE, "scheduling.run.ai": keys.KAI_QUEUE}

Verdicts = Iterator[RuleFinding | Unjudged]


def check(manifest: Manifest, context: Context) -> Verdicts:
    """Each gang of the object, at its least number."""
    for gang in gangs_of(manifest, context):
        if gang.is_open and gang.least > gang.count:
            yield Unjudged(gang.field, _MEMBERS_NEEDED)
        elif gang.count and gang.least > gang.count:
            says = f"waits for {counted(gang.least, 'member')} and has {gang.count}"
            yield RuleFinding(gang.field, says, f"write at most {gang.count}")
        else:
            yield from _held_by_cluster(gang, context.cluster)
            yield from _allowed_by_queue(manifest, gang, context)


def _held_by_cluster(gang: Gang, cluster: Cluster | None) -> Verdicts:
    for member in gang.members:
        # Of several roles, how many of each are in the least number is not said.
        wanted, asked = gang.wanted(member), member.template.asked_devices
        if not asked or not wanted:
            continue
        if cluster is None or not cluster.knows("Node"):
            yield Unjudged(gang.field, CLUSTER_NEEDED)
        elif (room := _room(cluster, member.template, asked)) < wanted:
            waits = f"waits for {counted(wanted, 'pod')} with GPUs"
            says = f"{waits}, and the empty cluster has room for {room} of them"
            # A cloud may add nodes for it.
            severity = Severity.WARNING if cluster.may_grow else None
            yield RuleFinding(gang.field, says, "lower it, or give each pod fewer GPUs", severity=severity)


def _room(cluster: Cluster, template: PodTemplate, asked: dict[str, int]) -> int:
    nodes = cluster.candidates(template)
    return sum(min(node.gpus[name] // count for name, count in asked.items()) for node in nodes)


def _allowed_by_queue(manifest: Manifest, gang: Gang, context: Context) -> Verdicts:
    named = _queue(manifest, gang)
    if named is None:
        return
    key, name = named
    lacks: set[Lacking] = set()
    for resource in sorted({name for one in gang.members for name in one.template.asked_devices}):
        found = context.queues.bound(key, name, manifest.namespace, resource)
        if isinstance(found, Lacking):
            lacks.add(found)
        elif found is not None:
            alone = max(
                gang.wanted(one) * one.template.asked_devices.get(resource, 0) for one in gang.members
            )
            together = _least_together(gang, resource)
            # One pod has to get all of its GPUs from one flavor; the gang may use several.
            needed, most = (alone, found.most) if alone > found.most else (together, found.most_together)
            if needed > most:
                says = f"needs {needed} {resource} at once, and {found.queue} never has over {float(most):g}"
                yield RuleFinding(gang.field, says, "lower it, raise the quota, or name another queue")
    for one in sorted(lacks, key=lambda one: one.plurals):
        yield Unjudged(gang.field, cluster_needed(*one.plurals))


def _least_together(gang: Gang, resource: str) -> int:
    """What the gang takes at least: its least number of pods, chosen so that they ask for little."""
    left, total = gang.least, 0
    for asked, count in sorted(
        (one.template.asked_devices.get(resource, 0), one.count) for one in gang.members
    ):
        total += asked * min(left, count)
        left -= min(left, count)
    return total


def _queue(manifest: Manifest, gang: Gang) -> tuple[str, str] | None:
    """The key that names the gang's queue, on the gang or on its first member, and the name of the queue."""
    if gang.queue is not None and manifest.group in _OWN_QUEUES:
        return _OWN_QUEUES[manifest.group], gang.queue.text or ""
    places: list[Field] = [one.template.metadata for one in gang.members[:1]]
    if not is_pod_group(manifest):
        places.append(manifest.root.at("metadata"))
    said = (named_queue(one.at("labels").texts(), one.at("annotations").texts()) for one in places)
    return next((one for one in said if one is not None), None)


RULE = Rule("GPU024", "Gang that can never start", Severity.ERROR, check, Scope.CLUSTER, concerns=may_be_gang)
