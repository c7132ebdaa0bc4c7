"""GPU029: an autoscaler asks for a metric that no server has in the cluster."""

from collections.abc import Iterator

from gpufleet.lint.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed

_GROUPS = {
    "pods": "custom.metrics.k8s.io",
    "object": "custom.metrics.k8s.io",
    "external": "external.metrics.k8s.io",
}
_SERVICES_NEEDED = cluster_needed("apiservices")
_METRICS_NEEDED = "which metrics that API serves, which no object says (kubectl get --raw tells)"


def _has_metrics(manifest: Manifest) -> bool:
    metrics = manifest.root.at("spec", "metrics").items()
    is_scaler = manifest.kind == "HorizontalPodAutoscaler"
    return is_scaler and any(one.at(kind).exists for one in metrics for kind in _GROUPS)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each metric of an API that is not registered."""
    cluster = context.cluster
    for metric in manifest.root.at("spec", "metrics").items():
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
