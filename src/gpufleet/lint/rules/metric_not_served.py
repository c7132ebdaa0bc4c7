"""GPU029: an autoscaler asks for a metric that no server has in the cluster."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed

_GROUPS = {
    "pods": "custom.metrics.k8s.io",
    "object": "custom.metrics.k8s.io",
    "external": "external.metrics.k8s.io",
}
_OF_RESOURCES = ("resource", "containerResource")
_RESOURCES = frozenset({"cpu", "memory"})
"""What metrics.k8s.io tells of pods. No cluster's server has GPUs there."""

_SERVICES_NEEDED = cluster_needed("apiservices")
_METRICS_NEEDED = "which metrics that API serves, which no object says (kubectl get --raw tells)"


def _has_metrics(manifest: Manifest) -> bool:
    metrics = manifest.root.at("spec", "metrics").items()
    is_scaler = manifest.kind == "HorizontalPodAutoscaler"
    kinds = (*_GROUPS, *_OF_RESOURCES)
    return is_scaler and any(one.at(kind).exists for one in metrics for kind in kinds)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each metric of an API that is not registered, and each resource that no API of metrics tells."""
    cluster = context.cluster
    for metric in manifest.root.at("spec", "metrics").items():
        for kind in _OF_RESOURCES:
            name = metric.at(kind, "name")
            if name.exists and name.text not in _RESOURCES:
                says = f"scales on the resource {name.text}, and metrics.k8s.io has CPU and memory alone"
                yield RuleFinding(name, says, "scale on a metric of the pods (type: Pods), with an adapter")
        for kind, group in _GROUPS.items():
            field = metric.at(kind, "metric", "name")
            if not metric.at(kind).exists:
                continue
            if cluster is None or not cluster.knows("APIService"):
                yield Unjudged(field, _SERVICES_NEEDED)
            elif not any(name.endswith(f".{group}") for name in cluster.names("APIService")):
                says = f"scales on {field.text}, and no API service of the cluster serves {group}"
                yield RuleFinding(field, says, "install an adapter (prometheus-adapter with a rule) or KEDA")
            else:
                yield Unjudged(field, _METRICS_NEEDED)


RULE = Rule(
    "GPU029", "Metric that is not served", Severity.ERROR, check, Scope.CLUSTER, concerns=_has_metrics
)
