"""Asks a server for the use of GPUs: which queries, over which time, in which order.

Use and memory are the highest within each step, so that no peak falls between two points. What pods ask for
and what owns them hardly changes, so one point a day is enough; kube-state-metrics need not be there.
``pod_samples`` makes samples of it.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from gpufleet.model.model_errors import InputError
from gpufleet.model.resources import MEBIBYTE
from gpufleet.usage.measured_cards import Host
from gpufleet.usage.prometheus.answer import CLUSTER, Series
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import PodName, Target, named_pod
from gpufleet.usage.prometheus.owners import owners_of
from gpufleet.usage.prometheus.pod_samples import WHOLE_GPU, GpuUse, KnownPods, judge
from gpufleet.usage.prometheus.tracks import Tracks
from gpufleet.usage.prometheus.window import Window

USE = "DCGM_FI_DEV_GPU_UTIL"
MEMORY = "DCGM_FI_DEV_FB_USED"
REQUESTS = 'kube_pod_container_resource_requests{resource=~"nvidia_com_.+|gpufleet_io_gpu_share|cpu|memory"}'
ALLOCATABLE = 'kube_node_status_allocatable{resource=~"cpu|memory|nvidia_com_gpu"}'
CPU, HOST_MEMORY = "cpu", "memory"
AMOUNT_MAX = 2.0**53
"""More cores and bytes than anything has; above it a number is not exact any more."""
POD_LABELS = "namespace, pod, exported_namespace, exported_pod"


class _Asking:
    """Asks one server about one window, and keeps what it warns of."""

    def __init__(self, source: Source, window: Window) -> None:
        self._source = source
        self._window = window
        self.warnings: list[str] = []

    def readings(self, metric: str) -> Iterator[tuple[Series, ...]]:
        """The highest value within each step, part by part."""
        yield from self._over(f"max_over_time({metric}[{self._window.step_s}s])", self._window, metric)

    def facts(self, selector: str, by: str) -> list[Series]:
        """The highest value of each day, of series that agree in these labels."""
        days = self._window.by_day()
        promql = f"max by ({by}, {CLUSTER}) (max_over_time({selector}[{days.step_s}s]))"
        return [one for part in self._over(promql, days, selector.partition("{")[0]) for one in part]

    def _over(self, promql: str, window: Window, name: str) -> Iterator[tuple[Series, ...]]:
        for answer in self._source.over(promql, window, name):
            self.warnings += answer.warnings
            yield answer.series


def gpu_use(source: Source, window: Window, namespaces: Collection[str] = ()) -> GpuUse:
    """What pods used of GPUs within the window.

    Raises WorldError if the server fails, InputError if it has nothing that could be judged.
    """
    asking = _Asking(source, window)
    targets = _targets(asking)
    # Before the tracks: a pod known to ask for GPUs is no exporter, where labels leave that open.
    known = _known(asking)
    tracks = Tracks(window.step_s, targets, known.requests.keys())
    for series in asking.readings(USE):
        tracks.add_use(series)
    for series in asking.readings(MEMORY):
        tracks.add_memory(series)
    if not tracks.devices:
        raise InputError(
            f"has no series {USE} with a UUID in this time",
            where=source.url,
            expected="a server that scrapes dcgm-exporter or gpufleet's agents, and a time in which it did",
        )
    found = judge(tracks, known, window.step_s, namespaces)
    notes = (*found.notes, *dict.fromkeys(f"{source.url} warns: {one}" for one in asking.warnings))
    if not found.samples:
        raise InputError(
            "nothing that can be judged" + "".join(f"; {one}" for one in notes),
            where=source.url,
            expected="series that name the pods on GPUs (dcgm-exporter with DCGM_EXPORTER_KUBERNETES=true)",
        )
    return GpuUse(found.samples, found.cards, found.hosts, notes)


def _targets(asking: _Asking) -> dict[Target, set[PodName]]:
    """The pods behind each target that was scraped; none where a target is no pod."""
    found: dict[Target, set[PodName]] = {}
    for one in asking.facts("up", "job, instance, namespace, pod"):
        pods = found.setdefault((one.labels.get("job", ""), one.labels.get("instance", "")), set())
        if "pod" in one.labels:
            pods.add(PodName(one.labels.get("namespace", ""), one.labels["pod"]))
    return found


def _known(asking: _Asking) -> KnownPods:
    """What pods ask for, summed over their containers, what owns them, and what nodes have."""
    of_container: dict[tuple[PodName, str, str], float] = {}
    for one in asking.facts(REQUESTS, f"{POD_LABELS}, container, exported_container, resource"):
        container = one.labels.get("exported_container") or one.labels.get("container", "")
        key = (named_pod(one.labels), container, one.labels.get("resource", ""))
        # Two copies of kube-state-metrics may tell the same request: it must not be added up.
        of_container[key] = max(*one.values, of_container.get(key, 0.0), 0.0)
    requests: dict[PodName, dict[str, int]] = {}
    of_hosts: dict[PodName, dict[str, float]] = {}
    for (pod, _, resource), amount in of_container.items():
        if resource in (CPU, HOST_MEMORY):
            _add(of_hosts.setdefault(pod, {}), resource, amount)
        elif amount >= 1:
            _add(requests.setdefault(pod, {}), resource, int(amount))
    owner = "owner_kind, owner_name"
    owners = owners_of(
        asking.facts("kube_pod_owner", f"{POD_LABELS}, owner_is_controller, {owner}"),
        asking.facts("kube_replicaset_owner", f"namespace, exported_namespace, replicaset, {owner}"),
        asking.facts("kube_job_owner", f"namespace, exported_namespace, job_name, {owner}"),
    )
    hosts, gpus_offered = _nodes(asking)
    host_requests = {pod: _host(found) for pod, found in of_hosts.items()}
    return KnownPods(requests, host_requests, owners, hosts, gpus_offered)


def _nodes(asking: _Asking) -> tuple[dict[str, Host], dict[str, int]]:
    """The nodes of which both CPU and memory are told, and how many GPUs each offers at most."""
    found: dict[str, dict[str, float]] = {}
    gpus: dict[str, int] = {}
    for one in asking.facts(ALLOCATABLE, "node, exported_node, resource"):
        name = one.labels.get("exported_node") or one.labels.get("node", "")
        if one.labels.get("resource") == WHOLE_GPU:
            gpus[name] = int(max(*one.values, gpus.get(name, 0), 0))
            continue
        # The smallest that it ever had, so that nothing is promised that does not fit.
        has = found.setdefault(name, {})
        resource = one.labels.get("resource", "")
        has[resource] = min([*one.values, has.get(resource, math.inf)])
    both = {CPU, HOST_MEMORY}
    hosts = {name: _host(has) for name, has in found.items() if has.keys() == both and _is_real(has)}
    return hosts, gpus


def _is_real(amounts: Mapping[str, float]) -> bool:
    return all(0 <= amount < AMOUNT_MAX for amount in amounts.values())


def _host(amounts: Mapping[str, float]) -> Host:
    """Cores and bytes in our units, a started one counted as a whole."""
    cores = min(amounts.get(CPU, 0.0), AMOUNT_MAX)
    memory_bytes = min(amounts.get(HOST_MEMORY, 0.0), AMOUNT_MAX)
    # 0.07 cores are 70.00000000000001 thousandths.
    return Host(math.ceil(round(cores * 1000, 6)), math.ceil(memory_bytes / MEBIBYTE))


Amount = TypeVar("Amount", int, float)


def _add(to: dict[str, Amount], resource: str, amount: Amount) -> None:
    to[resource] = to.get(resource, 0) + amount
