"""Measurements of pods, asked of the Prometheus server that scrapes gpufleet's agents and cAdvisor.

The use of GPUs is asked for first, of all pods. Only of those that were quiet all the time the other signals
are asked for, so that a fleet at work costs one query a round. ``activity`` judges what comes back.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpufleet.model.label_syntax import is_subdomain
from gpufleet.operator.parking.activity import QUIET_BELOW, MeasuredPod, Signal, Steps
from gpufleet.usage.agent_series import POD_MEMORY_USED, POD_USED, is_possible
from gpufleet.usage.prometheus.answer import CLUSTER, Series
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import PodName, named_pod
from gpufleet.usage.prometheus.window import Window

PODS_AT_ONCE = 200
"""Names in one query: a request has a bounded length."""

RATE_S, RATE_STEP_S = 180, 60
"""Over how long a rate is taken, so that one of three scrapes a minute apart may be lost; and how often."""

CPU, RECEIVED = "container_cpu_usage_seconds_total", "container_network_receive_bytes_total"
REQUEST_COUNTERS = (
    "vllm:request_success_total",
    "tgi_request_success",
    "nv_inference_request_success",
    "sglang:num_requests_total",
)
"""Counters of requests that model servers have answered."""

GPU_LABELS = f"namespace, pod, exported_namespace, exported_pod, {CLUSTER}"
POD_LABELS = f"namespace, pod, {CLUSTER}"


def measure(source: Source, pods: Mapping[PodName, int], steps: Steps) -> dict[PodName, MeasuredPod]:
    """What was measured of these pods, each with when it started in microseconds since 1970.

    Raises WorldError if the server fails.
    """
    # Names become part of a query, so what Kubernetes would not take as a name is left out.
    names = sorted(one for one in pods if is_subdomain(one.namespace) and is_subdomain(one.name))
    found: dict[PodName, dict[Signal, list[float | None]]] = {one: {} for one in names}
    _read(source, Signal.GPU, names, steps, found)
    quiet = [one for one in names if _may_be_quiet(found[one].get(Signal.GPU), steps, pods[one])]
    for signal in (Signal.GPU_MEMORY, Signal.CPU, Signal.NETWORK, Signal.REQUESTS):
        _read(source, signal, quiet, steps, found)
    return {one: MeasuredPod(one.name, pods[one], found[one]) for one in names}


def _may_be_quiet(values: Sequence[float | None] | None, steps: Steps, started_us: int) -> bool:
    """Whether the newest known step is quiet: another pod is at work, whatever the other signals say."""
    # A pod that began within the newest step was not measured for a whole one.
    if values is None or started_us > steps.begins_us(steps.count - 1):
        return False
    known = [one for one in values if one is not None]
    return bool(known) and known[-1] < QUIET_BELOW[Signal.GPU]


def _read(
    source: Source,
    signal: Signal,
    names: Sequence[PodName],
    steps: Steps,
    into: Mapping[PodName, dict[Signal, list[float | None]]],
) -> None:
    wanted = set(names)
    # Names are asked for by namespace and pod alone, so a pod of that name in another namespace comes along.
    for first in range(0, len(names), PODS_AT_ONCE):
        for promql in _questions(signal, names[first : first + PODS_AT_ONCE], steps):
            for series in _answers(source, promql, steps, signal):
                pod = named_pod(series.labels)
                if pod in wanted:
                    values = into[pod].setdefault(signal, [None] * steps.count)
                    _add(values, series, steps, signal)


def _answers(source: Source, promql: str, steps: Steps, signal: Signal) -> Iterator[Series]:
    first_s = steps.end_s - (steps.count - 1) * steps.step_s
    for answer in source.over(promql, Window(first_s, steps.end_s, steps.step_s), signal.value):
        yield from answer.series


def _add(values: list[float | None], series: Series, steps: Steps, signal: Signal) -> None:
    """The highest of several series counts: a pod's GPUs, and replicas of one server."""
    limits = {Signal.GPU: POD_USED, Signal.GPU_MEMORY: POD_MEMORY_USED}.get(signal)
    for at_s, value in zip(series.times_s, series.values, strict=True):
        index = steps.index_of(at_s)
        # What cannot be true is no measurement.
        wrong = value < 0 if limits is None else not is_possible(limits, value)
        if index is not None and not wrong:
            before = values[index]
            values[index] = value if before is None else max(before, value)


def _questions(signal: Signal, pods: Collection[PodName], steps: Steps) -> Iterable[str]:
    step_s = steps.step_s
    own, exported = _selectors(pods)
    # A rate is looked at every minute, so that a short load is not lost in the mean of a long step.
    over = f"[{step_s}s:{RATE_STEP_S}s]"
    match signal:
        case Signal.GPU:
            for chosen in (own, exported):
                yield f"max by ({GPU_LABELS}) (max_over_time({POD_USED}{{{chosen}}}[{step_s}s]))"
        case Signal.GPU_MEMORY:
            # The sum over the GPUs of a pod: what moves from one to the other is work too.
            for chosen in (own, exported):
                yield f"sum by ({GPU_LABELS}) (max_over_time({POD_MEMORY_USED}{{{chosen}}}[{step_s}s]))"
        case Signal.CPU:
            # cAdvisor tells each container and the whole pod, which has no container's name.
            each = f'rate({CPU}{{{own}, container!=""}}[{RATE_S}s])'
            yield f"max_over_time(sum by ({POD_LABELS}) ({each}){over})"
        case Signal.NETWORK:
            yield f"max_over_time(sum by ({POD_LABELS}) (rate({RECEIVED}{{{own}}}[{RATE_S}s])){over})"
        case Signal.REQUESTS:
            # One by one: counters of two names with the same labels cannot stand in one answer.
            for counter in REQUEST_COUNTERS:
                each = f"increase({counter}{{{own}}}[{RATE_S}s])"
                yield f"max_over_time(sum by ({POD_LABELS}) ({each}){over})"


def _selectors(pods: Collection[PodName]) -> tuple[str, str]:
    """Selectors of the series of these pods, under either of the labels that name one."""
    names = "|".join(sorted({re.escape(one.name) for one in pods}))
    namespaces = "|".join(sorted({re.escape(one.namespace) for one in pods}))
    return (
        f"pod=~`{names}`, namespace=~`{namespaces}`",
        f"exported_pod=~`{names}`, exported_namespace=~`{namespaces}`",
    )
