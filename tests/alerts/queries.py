"""What queries in PromQL ask for, and the metrics and labels that there are to be asked for."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql

from tests.alerts import inventory

FOREIGN = {
    "kube_node_status_capacity": {"node", "resource"},
    "kube_node_status_allocatable": {"node", "resource"},
    "kube_node_spec_unschedulable": {"node"},
    "cluster_autoscaler_nodes_count": {"state"},
    "karpenter_build_info": {"version"},
    "aggregator_unavailable_apiservice": {"name"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
}
"""Metrics of kube-state-metrics 2.17 (its docs/metrics), autoscalers and the API server, with labels."""
SCRAPED = {"cluster", "instance", "job"}
"""Labels that Prometheus itself puts on every series; ``cluster`` where it is told to."""

KNOWN = {metric.name: {*metric.labels, *SCRAPED} for metric in inventory.listed()} | {
    name: labels | SCRAPED for name, labels in FOREIGN.items()
}
TYPES = {metric.name: metric.type for metric in inventory.listed()}


def below(node: Any) -> Iterator[Any]:
    """A part of a query and all its parts."""
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        part = getattr(node, name, None)
        if part is not None:
            yield from below(part)
    for part in getattr(node, "args", None) or ():
        yield from below(part)


def selectors(expression: str) -> list[Any]:
    """What a query asks for."""
    found = below(promql.parse(expression))
    return [part for part in found if isinstance(part, promql.VectorSelector)]


def base_name(name: str) -> str:
    """The metric of a series: a histogram has several names."""
    plain = re.sub(r"_(bucket|count|sum)$", "", name)
    return plain if TYPES.get(plain) == "histogram" else name
