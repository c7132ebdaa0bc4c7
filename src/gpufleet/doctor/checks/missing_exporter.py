"""GPU nodes of which no exporter tells metrics, in a cluster that collects metrics."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.monitoring import scrapers
from gpufleet.doctor.views.stack import StackPart, stack_of
from gpufleet.model.phrases import each_of


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The real nodes without one."""
    # Without a plugin there is more to mend on a node, and another check says so.
    nodes = [one for one in facts.gpu_nodes if one.offers and not one.is_simulated]
    collectors = scrapers(facts)
    if nodes and not collectors:
        yield Unjudged("whether GPUs are watched: the cluster has no Prometheus that could be seen")
    if not nodes or not collectors:
        return
    stack = stack_of(facts)
    without = [one for one in nodes if not stack.pods_on(one, StackPart.EXPORTER)]
    if not without:
        yield Good(f"an exporter tells metrics of the GPUs of {each_of(len(nodes), 'node')}")
        return
    exporters = stack.having(StackPart.EXPORTER)
    if exporters:
        manifest = exporters[0].manifest
        why = f"{listed(one.title for one in exporters)} has no pod there"
        command = f"kubectl describe daemonset -n {manifest.namespace} {manifest.name}"
        mend = Remedy("compare its selector and tolerations with the labels and taints of the nodes", command)
    else:
        why = "no DaemonSet of the cluster is an exporter of GPUs"
        command = (
            "helm install dcgm-exporter dcgm-exporter --repo https://nvidia.github.io/dcgm-exporter/helm-charts"
            " --namespace monitoring --set serviceMonitor.enabled=true"
        )
        mend = Remedy("install an exporter; gpufleet's agent is one, for NVIDIA dcgm-exporter too", command)
    yield Failure(
        f"{listed(one.name for one in without)}: nothing exports metrics of their GPUs",
        tuple(one.title for one in without),
        (why, f"metrics are collected by {listed(collectors)}"),
        (mend,),
    )


CHECK = Check(
    "exporter-missing",
    Point.WATCHING,
    Layer.STACK,
    "GPUs tell metrics",
    "Without an exporter a GPU that is hot, idle, or broken is noticed only when its users say so.",
    judge,
    ("Node", "DaemonSet", "Pod"),
    Grade.RISK,
)
