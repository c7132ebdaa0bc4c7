"""What a Prometheus tells of the nodes and pods of the past: series of kube-state-metrics and of exporters.

Facts hardly change, so each is asked for once a day, with the first and the last moment at which its object
was told of. ``past`` makes observations of them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.kube.keys import QUEUE_KEYS
from gpufleet.kube.meanings.node_labels import (
    INSTANCE_TYPE,
    OLD_REGION,
    OLD_ZONE,
    PRODUCT_LABELS,
    REGION,
    ZONE,
)
from gpufleet.ledger.counters import STEP_S
from gpufleet.ledger.spans import Span, end_us, joined
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.spot import SPOT_LABELS
from gpufleet.usage.agent_series import HELD, is_possible
from gpufleet.usage.prometheus.answer import CLUSTER, Series
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import NoPod, PodName, device_of, holder_of, named_pod
from gpufleet.usage.prometheus.owners import Owners, owners_of
from gpufleet.usage.prometheus.window import Window

POD_LABELS = "namespace, pod, exported_namespace, exported_pod, uid"
GPU_RESOURCES = "nvidia_com_.+|amd_com_.+|gpufleet_io_gpu_share"
WHOLE_RESOURCES = ("nvidia_com_gpu", "amd_com_gpu")
"""What asks for whole GPUs, as kube-state-metrics writes it."""

DCGM_HOLDERS = "DCGM_FI_DEV_FB_USED"
"""The series of dcgm-exporter by which a pod is known to hold a card."""

KNOWN_KEYS = (
    *(REGION, OLD_REGION, ZONE, OLD_ZONE, INSTANCE_TYPE, *PRODUCT_LABELS, *QUEUE_KEYS),
    *(key for key, _ in SPOT_LABELS),
)
"""Labels whose own names are needed; kube-state-metrics writes all of them otherwise."""


class PastPod(msgspec.Struct):
    """What is told of a pod. Moments that are not told are None."""

    uid: str
    name: PodName
    node: str
    seen: Span
    bound_us: int | None = None
    started_us: int | None = None
    deletion_us: int | None = None
    ended_us: int | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    asks_for_parts: bool = False
    labels: dict[str, str] = {}
    cards: dict[DeviceId, float] = {}
    """The held part of each card that a series names it on."""


class PastNode(msgspec.Struct):
    """What is told of a node."""

    name: str
    seen: Span
    provider_id: str = ""
    created_us: int | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    labels: dict[str, str] = {}
    cards: dict[DeviceId, str] = {}
    """The model of each card that a series names on it; "" where none is told."""


class PastFacts(msgspec.Struct, frozen=True):
    """All of them; ``told`` are the times in which kube-state-metrics was scraped."""

    pods: Mapping[str, PastPod]
    nodes: Mapping[str, PastNode]
    owners: Owners
    told: Sequence[Span]


class _Asking:
    """Asks one server about one time."""

    def __init__(self, source: Source, span: Span) -> None:
        first_s = span.from_us // US_PER_S // STEP_S * STEP_S + STEP_S
        last_s = max(first_s, end_us(span) // US_PER_S // STEP_S * STEP_S)
        self._source = source
        self._steps = Window(first_s, last_s, STEP_S)
        self._days = self._steps.by_day()

    def daily(self, function: str, selector: str, by: str) -> Iterator[Series]:
        """A value a day of series that agree in these labels."""
        name = selector.partition("{")[0]
        range_ = f"[{self._days.step_s}s]"
        of_each = "max" if function == "max" else "min"
        promql = f"{of_each} by ({by}, {CLUSTER}) ({function}_over_time({selector}{range_}))"
        return self._over(promql, self._days, name)

    def moments(self, function: str, selector: str, by: str) -> Iterator[Series]:
        """The first or last moment of each day at which series that agree in these labels were scraped."""
        name = selector.partition("{")[0]
        stamps = f"timestamp({selector})[{self._days.step_s}s:{STEP_S}s]"
        promql = f"{function} by ({by}, {CLUSTER}) ({function}_over_time({stamps}))"
        return self._over(promql, self._days, name)

    def whole(self, selector: str) -> Iterator[Series]:
        """Series with all of their labels, a value a day."""
        return self._over(f"last_over_time({selector}[{self._days.step_s}s])", self._days, selector)

    def told(self, selector: str) -> list[Span]:
        """The steps in which there was any such series."""
        promql = f"max by ({CLUSTER}) (last_over_time({selector}[{STEP_S}s]))"
        found = [
            Span((at_s - STEP_S) * US_PER_S, at_s * US_PER_S)
            for one in self._over(promql, self._steps, selector)
            for at_s in one.times_s
        ]
        return joined(found)

    def _over(self, promql: str, window: Window, name: str) -> Iterator[Series]:
        for answer in self._source.over(promql, window, name):
            yield from answer.series


def past_facts(source: Source, span: Span) -> PastFacts:
    """All that a server tells of a time that has an end. Raises WorldError."""
    asking = _Asking(source, span)
    pods, nodes = _pods(asking), _nodes(asking)
    by_name: dict[PodName, list[PastPod]] = defaultdict(list)
    for pod in pods.values():
        by_name[pod.name].append(pod)
    _add_moments(asking, pods)
    _add_requests(asking, pods)
    for series in asking.whole("kube_pod_labels"):
        for pod in _named(series, by_name):
            pod.labels = _labels(series.labels)
    _add_agents(asking, by_name, nodes)
    _add_exporters(asking, by_name, nodes)
    owner = "owner_kind, owner_name"
    owners = owners_of(
        asking.daily("max", "kube_pod_owner", f"{POD_LABELS}, owner_is_controller, {owner}"),
        asking.daily("max", "kube_replicaset_owner", f"namespace, exported_namespace, replicaset, {owner}"),
        asking.daily("max", "kube_job_owner", f"namespace, exported_namespace, job_name, {owner}"),
    )
    return PastFacts(pods, nodes, owners, asking.told("kube_node_info"))


def _pods(asking: _Asking) -> dict[str, PastPod]:
    found: dict[str, PastPod] = {}
    for function in ("min", "max"):
        for series in asking.moments(function, 'kube_pod_info{node!=""}', f"{POD_LABELS}, node"):
            uid, at_us = series.labels.get("uid", ""), [round(one * US_PER_S) for one in series.values]
            if not uid or not at_us:
                continue
            seen = Span(min(at_us), max(at_us))
            known = found.get(uid)
            if known is None:
                found[uid] = PastPod(uid, named_pod(series.labels), series.labels.get("node", ""), seen)
            else:
                known.seen = _both(known.seen, seen)
    return found


def _nodes(asking: _Asking) -> dict[str, PastNode]:
    found: dict[str, PastNode] = {}
    for function in ("min", "max"):
        for series in asking.moments(function, "kube_node_info", "node, exported_node, provider_id"):
            name, at_us = _node_of(series), [round(one * US_PER_S) for one in series.values]
            if not name or not at_us:
                continue
            seen = Span(min(at_us), max(at_us))
            node = found.setdefault(name, PastNode(name, seen, series.labels.get("provider_id", "")))
            node.seen = _both(node.seen, seen)
    for series in asking.daily("min", "kube_node_created", "node, exported_node"):
        if (one := found.get(_node_of(series))) is not None and series.values:
            one.created_us = round(min(series.values) * US_PER_S)
    for series in asking.whole("kube_node_labels"):
        if (one := found.get(_node_of(series))) is not None:
            one.labels = _labels(series.labels)
    selector = f'kube_node_status_allocatable{{resource=~"cpu|memory|{GPU_RESOURCES}"}}'
    for series in asking.daily("max", selector, "node, exported_node, resource"):
        if (one := found.get(_node_of(series))) is not None and series.values:
            _add_amount(one, series.labels.get("resource", ""), max(series.values))
    return found


def _add_amount(node: PastNode, resource: str, amount: float) -> None:
    if resource == "cpu":
        node.cpu_milli = round(amount * 1000)
    elif resource == "memory":
        node.memory_bytes = round(amount)
    elif resource in WHOLE_RESOURCES:
        node.gpus = round(amount)


def _add_moments(asking: _Asking, pods: Mapping[str, PastPod]) -> None:
    for metric, field, function in (
        ("kube_pod_status_scheduled_time", "bound_us", "min"),
        ("kube_pod_container_state_started", "started_us", "min"),
        ("kube_pod_completion_time", "ended_us", "max"),
        ("kube_pod_deletion_timestamp", "deletion_us", "min"),
    ):
        # Of several containers the one that started last counts, and of a container its first start.
        by = f"{POD_LABELS}, container" if field == "started_us" else POD_LABELS
        of_pod: dict[str, list[int]] = defaultdict(list)
        of_container: dict[tuple[str, str], int] = {}
        for series in asking.daily(function, metric, by):
            key = series.labels.get("uid", ""), series.labels.get("container", "")
            moments = [round(one * US_PER_S) for one in series.values if one > 0]
            if moments:
                chosen = max(moments) if function == "max" else min(moments)
                of_container[key] = min(chosen, of_container.get(key, chosen))
        for (uid, _), at_us in of_container.items():
            of_pod[uid].append(at_us)
        for uid, all_us in of_pod.items():
            if uid in pods:
                setattr(pods[uid], field, max(all_us))


def _add_requests(asking: _Asking, pods: Mapping[str, PastPod]) -> None:
    selector = f'kube_pod_container_resource_requests{{resource=~"cpu|memory|{GPU_RESOURCES}"}}'
    labels = f"{POD_LABELS}, container, exported_container, resource"
    of_container: dict[tuple[str, str, str], float] = {}
    for series in asking.daily("max", selector, labels):
        container = series.labels.get("exported_container") or series.labels.get("container", "")
        key = series.labels.get("uid", ""), container, series.labels.get("resource", "")
        of_container[key] = max(*series.values, of_container.get(key, 0.0), 0.0)
    for (uid, _, resource), amount in of_container.items():
        pod = pods.get(uid)
        if pod is None:
            continue
        if resource == "cpu":
            pod.cpu_milli += round(amount * 1000)
        elif resource == "memory":
            pod.memory_bytes += round(amount)
        elif resource in WHOLE_RESOURCES:
            pod.gpus += round(amount)
        elif amount:
            pod.asks_for_parts = True


def _add_agents(
    asking: _Asking, by_name: Mapping[PodName, list[PastPod]], nodes: Mapping[str, PastNode]
) -> None:
    """The cards that pods held by what gpufleet's agents tell; parts of one card are added up."""
    labels = "node, uuid, mig_id, namespace, pod, exported_namespace, exported_pod"
    for series in asking.daily("max", HELD, labels):
        card, node = DeviceId(series.labels.get("uuid", "")), nodes.get(_node_of(series))
        values = [one for one in series.values if is_possible(HELD, one)]
        if node is None or not card or not values:
            continue
        node.cards.setdefault(card, "")
        for pod in _overlapping(series, by_name.get(named_pod(series.labels), ())):
            pod.cards[card] = min(1.0, pod.cards.get(card, 0.0) + max(values))


def _add_exporters(
    asking: _Asking, by_name: Mapping[PodName, list[PastPod]], nodes: Mapping[str, PastNode]
) -> None:
    """The cards of nodes, and the pods on them, by what dcgm-exporter tells of whole cards."""
    names = "UUID, uuid, gpu, modelName, Hostname, hostname, GPU_I_ID"
    pods = "job, instance, namespace, pod, exported_namespace, exported_pod, pod_name, pod_namespace"
    asks = {name for name, found in by_name.items() if any(one.gpus for one in found)}
    for series in asking.daily("max", DCGM_HOLDERS, f"{names}, {pods}"):
        device = device_of(series.labels)
        node = None if device is None else nodes.get(device.host)
        if device is None or node is None or device.instance:
            continue
        card = DeviceId(device.uuid)
        node.cards[card] = device.model
        holder = holder_of(series.labels, {}, asks)
        if not isinstance(holder, NoPod):
            for pod in _overlapping(series, by_name.get(holder, ())):
                # What the agent tells of the card is of the pod's own part.
                pod.cards.setdefault(card, 1.0)


def _overlapping(series: Series, pods: Iterable[PastPod]) -> Iterator[PastPod]:
    """The pods of a name that were there on a day of the series."""
    pods = list(pods)
    for pod in pods:
        if len(pods) == 1 or any(
            pod.seen.from_us <= at_s * US_PER_S and end_us(pod.seen) > (at_s - DAY_S) * US_PER_S
            for at_s in series.times_s
        ):
            yield pod


DAY_S = 86_400
"""A value of a day speaks for it."""


def _named(series: Series, by_name: Mapping[PodName, list[PastPod]]) -> list[PastPod]:
    uid = series.labels.get("uid", "")
    return [pod for pod in by_name.get(named_pod(series.labels), ()) if uid in ("", pod.uid)]


def _node_of(series: Series) -> str:
    return series.labels.get("exported_node") or series.labels.get("node", "")


def _both(one: Span, other: Span) -> Span:
    return Span(min(one.from_us, other.from_us), max(end_us(one), end_us(other)))


_PREFIX = "label_"
_NOT_IN_NAMES = re.compile("[^a-z0-9]")


def _plain(key: str) -> str:
    return _NOT_IN_NAMES.sub("", key.lower())


_KEYS = {_plain(key): key for key in KNOWN_KEYS}


def _labels(told: Mapping[str, str]) -> dict[str, str]:
    """Labels of an object: those that are known by their own names, others as kube-state-metrics has them."""
    found = {}
    for name, value in told.items():
        if name.startswith(_PREFIX):
            key = name.removeprefix(_PREFIX)
            found[_KEYS.get(_plain(key), key)] = value
    return found
