"""GPU033: a rollout waits for GPUs that nothing gives back."""

import math
from collections.abc import Iterator

from gpufleet.lint.objects.cluster import Cluster, ClusterNode
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed
from gpufleet.lint.source.fields import Field

_QUARTER = "25%"
_ENDED = frozenset({"Succeeded", "Failed"})


def _waits(manifest: Manifest) -> bool:
    """Whether the rollout adds a pod before it takes one away, and may take none away."""
    if manifest.kind != "Deployment" or not has_gpu_pods(manifest):
        return False
    strategy, replicas = manifest.root.at("spec", "strategy"), _replicas(manifest)
    rolling = strategy.at("rollingUpdate")
    # Kubernetes rounds the surge up and what may be missing down, and one of them is at least one.
    missing = _count(rolling.at("maxUnavailable"), replicas, rounds_up=False)
    surge = _count(rolling.at("maxSurge"), replicas, rounds_up=True)
    return strategy.at("type").text != "Recreate" and replicas > 0 and surge > 0 and missing == 0


def _replicas(manifest: Manifest) -> int:
    written = manifest.root.at("spec", "replicas").integer
    return 1 if written is None else written


def _count(field: Field, replicas: int, *, rounds_up: bool) -> int:
    text = field.text or _QUARTER
    number = text.removesuffix("%")
    if not number.isdigit():
        return 0
    if number == text:
        return int(text)
    percent = replicas * int(number)
    return math.ceil(percent / 100) if rounds_up else percent // 100


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """The Deployment, where its pods and one more have no place together."""
    for template in manifest.templates:
        place = manifest.root.at("spec", "strategy")
        cluster = context.cluster
        if cluster is None or not cluster.knows("Node"):
            yield Unjudged(place, CLUSTER_NEEDED)
        elif cluster.candidates(template):
            places = sum(_places(cluster, one, template, manifest) for one in cluster.candidates(template))
            if places <= _replicas(manifest):
                says = f"replaces pods by adding one first, and there is room for {places} of them"
                yield RuleFinding(place, says, "set maxSurge: 0 and maxUnavailable: 1, or the type Recreate")
            elif not cluster.knows("Pod"):
                yield Unjudged(place, cluster_needed("nodes", "pods"))


def _places(cluster: Cluster, node: ClusterNode, template: PodTemplate, manifest: Manifest) -> int:
    """How many of these pods the node takes beside the pods of others."""
    own = dict(manifest.root.at("spec", "selector", "matchLabels").entries())
    free = dict(node.gpus)
    for pod in cluster.pods_on(node):
        labels = {name: one.text for name, one in pod.root.at("metadata", "labels").entries()}
        is_own = bool(own) and all(labels.get(name) == one.text for name, one in own.items())
        if pod.root.at("status", "phase").text in _ENDED or is_own:
            continue
        for name, count in pod.templates[0].asked_devices.items():
            free[name] = free.get(name, 0) - count
    asked = template.asked_devices
    return max(0, min((free.get(name, 0) // count for name, count in asked.items()), default=0))


RULE = Rule(
    "GPU033",
    "Rollout that waits for a GPU more",
    Severity.WARNING,
    check,
    Scope.CLUSTER,
    concerns=_waits,
)
