"""A history out of Prometheus: the pods with whole GPUs that kube-state-metrics told of.

A pod is there at the points at which its request for GPUs has a value. When it was made, started and was
completed are series too. Gangs, priorities, node selectors and shares of GPUs are in no series: each pod
stands alone, its namespace is its queue, and a model is known where dcgm-exporter or an agent names the pod
on a GPU.
"""

from collections.abc import Iterator, Mapping

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import GpuModelName, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.plan.history.recorded_work import SeenPod, SeenWork
from gpufleet.usage.prometheus.answer import CLUSTER, Series
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import PodName, named_pod
from gpufleet.usage.prometheus.window import Window

US_PER_S = 10**6
MILLI = 1_000
STEP_S = 300
"""How exactly the end of a pod is known of which no moment of completion is told."""

GPUS = 'kube_pod_container_resource_requests{resource=~"nvidia_com_gpu|amd_com_gpu"}'
HOST = 'kube_pod_container_resource_requests{resource=~"cpu|memory"}'
MODELS = "DCGM_FI_DEV_GPU_UTIL"
POD = "namespace, pod, exported_namespace, exported_pod"
NOTE = (
    "Prometheus tells no gangs, priorities, shares of GPUs or node selectors: each pod stands alone, in the "
    "queue of its namespace, on the model that it ran on"
)


def work_of_prometheus(source: Source, window: Window) -> SeenWork:
    """The pods with GPUs of a window. Raises InputError where there are none, and WorldError."""
    asking = _Asking(source, window)
    gpus = dict(asking.by_pod(_summed(GPUS)))
    if not gpus:
        expected = "a server that scrapes kube-state-metrics, and a time with pods that have GPUs"
        raise InputError(f"has no series {GPUS}", where=source.url, expected=expected)
    host = {
        resource: dict(asking.by_pod(_of_gpu_pods(_summed(HOST.replace("cpu|memory", resource)))))
        for resource in ("cpu", "memory")
    }
    created, started, completed = (
        dict(asking.by_pod(_of_gpu_pods(f"max by (uid, {POD}, {CLUSTER}) ({name})")))
        for name in ("kube_pod_created", "kube_pod_start_time", "kube_pod_completion_time")
    )
    models = asking.models()
    pods = []
    for key, series in gpus.items():
        _, name = key
        requested = round(max(series.values))
        if requested < 1:
            continue
        last_s = max(series.times_s)
        ended_s = _last(completed.get(key))
        if ended_s is None and last_s + window.step_s <= window.last_s:
            ended_s = last_s + window.step_s
        created_s, started_s = _last(created.get(key)), _last(started.get(key))
        amounts = {resource: _last(found.get(key)) or 0.0 for resource, found in host.items()}
        pods.append(
            SeenPod(
                str(name),
                _shape(requested, amounts, models.get(name, ())),
                _us(min(series.times_s) if created_s is None else created_s),
                None if started_s is None else _us(started_s),
                None if ended_s is None else _us(ended_s),
                QueueName(name.namespace),
            )
        )
    notes = (NOTE, *dict.fromkeys(f"{source.url} warns: {one}" for one in asking.warnings))
    return SeenWork(tuple(pods), {}, _us(window.first_s), source.url, notes)


def _summed(selector: str) -> str:
    """What all containers of a pod ask for. Two copies of kube-state-metrics may tell the same request."""
    container = f"max by (uid, {POD}, {CLUSTER}, container, exported_container, resource) ({selector})"
    return f"sum by (uid, {POD}, {CLUSTER}) ({container})"


def _of_gpu_pods(promql: str) -> str:
    return f"{promql} and on (uid) {GPUS}"


class _Asking:
    """Asks one server about one window, and keeps what it warns of."""

    def __init__(self, source: Source, window: Window) -> None:
        self._source = source
        self._window = window
        self.warnings: list[str] = []

    def by_pod(self, promql: str) -> Iterator[tuple[tuple[str, PodName], Series]]:
        """The series of each pod, by UID and name, with its points of all parts of the window."""
        found: dict[tuple[str, PodName], Series] = {}
        name = promql.partition("kube_pod_")[2].partition("{")[0].partition(")")[0]
        for answer in self._source.over(promql, self._window, f"kube_pod_{name}"):
            self.warnings += answer.warnings
            for one in answer.series:
                key = one.labels.get("uid", ""), named_pod(one.labels)
                if not one.times_s:
                    continue
                if key in found:
                    found[key].times_s.extend(one.times_s)
                    found[key].values.extend(one.values)
                else:
                    found[key] = one
        yield from found.items()

    def models(self) -> Mapping[PodName, tuple[GpuModelName, ...]]:
        """The models of the GPUs that pods had."""
        days = self._window.by_day()
        promql = f"max by ({POD}, modelName, {CLUSTER}) (max_over_time({MODELS}[{days.step_s}s]))"
        found: dict[PodName, dict[GpuModelName, None]] = {}
        for answer in self._source.over(promql, days, MODELS):
            for one in answer.series:
                model = find(one.labels.get("modelName", ""))
                if model is not None:
                    found.setdefault(named_pod(one.labels), {})[GpuModelName(model.name)] = None
        return {pod: tuple(names) for pod, names in found.items()}


def _shape(gpus: int, amounts: Mapping[str, float], models: tuple[GpuModelName, ...]) -> Shape:
    resources = Resources(round(amounts["cpu"] * MILLI), round(amounts["memory"]))
    return Shape(resources=resources, gpu=GpuRequest(gpus, WHOLE_GPU_MILLI, None, models))


def _last(series: Series | None) -> float | None:
    return None if series is None else series.values[-1]


def _us(seconds: float) -> int:
    return round(seconds * US_PER_S)
