"""What exporters told of a small cluster for a while, as OpenMetrics with times.

Names and labels are those of dcgm-exporter (its README and default-counters.csv) and kube-state-metrics
(docs/metrics). ``Story`` writes them, and promtool makes blocks of what ``openmetrics`` gives.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator

from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.gpu_use import gpu_use
from gpufleet.usage.prometheus.pod_samples import GpuUse
from gpufleet.usage.prometheus.window import Window, window_until

BEGIN_S = 1_760_000_040
"""A multiple of 60."""
EARLIER_S = 15
"""So long before each minute something was scraped, which is then within the step that ends there."""
MINUTES = 60
EXPORTER = {"job": "dcgm", "instance": "10.0.0.1:9400", "namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
KUBE = {"job": "ksm", "instance": "10.0.0.9:8080"}
A100 = "NVIDIA A100-SXM4-80GB"
Value = Callable[[int], float]


class Story:
    """Series with a value at each minute."""

    def __init__(self, minutes: int = MINUTES) -> None:
        self.minutes = minutes
        self._lines: dict[str, list[tuple[str, int, float]]] = {}
        self._labels: dict[str, dict[str, str]] = {}

    def tell(
        self, metric: str, labels: dict[str, str], value: Value, when: Iterable[int] | None = None
    ) -> None:
        """One series."""
        text = ",".join(f'{name}="{one}"' for name, one in labels.items())
        self._labels[text] = labels
        points = self._lines.setdefault(metric, [])
        for minute in range(self.minutes) if when is None else when:
            points.append((text, BEGIN_S + minute * 60 - EARLIER_S, value(minute)))

    def gpu(
        self,
        uuid: str,
        holder: dict[str, str],
        use_pct: Value,
        memory_mib: float | None = 9000,
        when: Iterable[int] | None = None,
        **more: str,
    ) -> None:
        """Utilisation and memory of a device as dcgm-exporter tells them."""
        device = {"UUID": uuid, "gpu": "0", "modelName": A100, "Hostname": "node-a", **EXPORTER}
        labels = {**device, **holder, **more}
        moments = None if when is None else list(when)
        self.tell("DCGM_FI_DEV_GPU_UTIL", labels, use_pct, moments)
        if memory_mib is not None:
            self.tell("DCGM_FI_DEV_FB_USED", labels, lambda _: memory_mib, moments)

    def up(self, labels: dict[str, str] | None = None) -> None:
        """The target itself, as Prometheus records it with each scrape."""
        self.tell("up", EXPORTER if labels is None else labels, lambda _: 1)

    def asks(
        self,
        namespace: str,
        pod: str,
        count: float,
        resource: str = "nvidia_com_gpu",
        container: str = "main",
    ) -> None:
        """What a container asks for, as kube-state-metrics tells it."""
        labels = {**KUBE, "namespace": namespace, "pod": pod, "container": container, "resource": resource}
        self.tell("kube_pod_container_resource_requests", labels, lambda _: count)

    def node(self, name: str, cores: float, memory_gib: float, gpus: int = 1) -> None:
        """What a node has for pods."""
        has = {"cpu": cores, "memory": memory_gib * 2**30, "nvidia_com_gpu": gpus}
        for resource, amount in has.items():
            labels = {**KUBE, "node": name, "resource": resource}
            self.tell("kube_node_status_allocatable", labels, lambda _, amount=amount: amount)  # type: ignore[misc]

    def owned(self, namespace: str, pod: str, kind: str, name: str) -> None:
        """Who owns a pod."""
        labels = {**KUBE, "namespace": namespace, "pod": pod, "owner_kind": kind, "owner_name": name}
        self.tell("kube_pod_owner", {**labels, "owner_is_controller": "true"}, lambda _: 1)

    def replica_set(self, namespace: str, name: str, deployment: str) -> None:
        """Who owns a ReplicaSet."""
        labels = {**KUBE, "namespace": namespace, "replicaset": name}
        owner = {"owner_kind": "Deployment", "owner_name": deployment}
        self.tell("kube_replicaset_owner", {**labels, **owner}, lambda _: 1)

    def job(self, namespace: str, name: str, cron_job: str) -> None:
        """Who owns a Job."""
        labels = {**KUBE, "namespace": namespace, "job_name": name}
        self.tell("kube_job_owner", {**labels, "owner_kind": "CronJob", "owner_name": cron_job}, lambda _: 1)

    @property
    def end_s(self) -> int:
        """The last minute."""
        return BEGIN_S + (self.minutes - 1) * 60

    def openmetrics(self) -> str:
        """The whole story."""
        found = []
        for metric, points in self._lines.items():
            found.append(f"# TYPE {metric} gauge\n")
            found += [f"{metric}{{{text}}} {value} {at_s}\n" for text, at_s, value in sorted(points)]
        return "".join([*found, "# EOF\n"])

    def series(self, metric: str) -> tuple[Series, ...]:
        """A metric's series, with a point at each minute for the minute before it."""
        found: dict[str, dict[int, float]] = {}
        for text, at_s, value in self._lines.get(metric, []):
            found.setdefault(text, {})[at_s + EARLIER_S] = value
        return tuple(
            Series(self._labels[text], array("q", points), array("d", points.values()))
            for text, points in found.items()
        )


class StoryTeller:
    """Answers the queries of ``gpu_use`` from a story as Prometheus does; a test compares the two."""

    url = "http://stand-in"

    def __init__(self, story: Story) -> None:
        self._story = story

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:  # noqa: ARG002
        """All series of the metric that the query names."""
        metric = re.search(r"max_over_time\((\w+)", promql)
        assert metric is not None
        yield PrometheusAnswer(self._story.series(metric[1]))


def use_of(story: Story, *namespaces: str) -> GpuUse:
    """What is made of a story, minute by minute."""
    return gpu_use(StoryTeller(story), window_until(story.end_s, story.minutes * 60, 60), namespaces)


def honoured(namespace: str, pod: str) -> dict[str, str]:
    """The holder where the scrape honours labels."""
    return {"namespace": namespace, "pod": pod, "container": "main"}


def exported(namespace: str, pod: str) -> dict[str, str]:
    """The holder where it does not: ``pod`` stays the exporter's."""
    return {"exported_namespace": namespace, "exported_pod": pod, "exported_container": "main"}
