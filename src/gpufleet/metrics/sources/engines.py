"""Figures of serving engines and gateways: by direct read of the pods that say where their page is, or from
Prometheus for all others.

An engine's own figure is as new as the read, or has the time that its page gives it. Without an object it
is told of each series of each ready pod, with the pod's name and ``app`` among its labels: a pod that just
starts has no queue, but one that is ready and does not answer makes the sum unknown.
"""

import asyncio
from collections.abc import Mapping, Sequence

from gpufleet.kube import keys
from gpufleet.metrics.catalogue import Metric
from gpufleet.metrics.cluster_objects import ClusterObjects, PodFacts
from gpufleet.metrics.reading import POD_KIND, ObjectKey, Reading
from gpufleet.metrics.served_values import FoundValues
from gpufleet.metrics.sources.agents import ALL_S
from gpufleet.metrics.sources.pages import Pages
from gpufleet.metrics.sources.pod_pages import engine_url
from gpufleet.metrics.sources.prometheus_values import PrometheusValues
from gpufleet.model.model_errors import WorldError

APP_LABELS = (keys.APPLICATION, "app")


class Engines:
    """Reads engines; ``prometheus`` knows of pods without a page that could be read."""

    def __init__(
        self, objects: ClusterObjects, pages: Pages, prometheus: PrometheusValues | None = None
    ) -> None:
        self._objects = objects
        self._pages = pages
        self._prometheus = prometheus

    async def of_objects(
        self, metric: Metric, objects: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """What each pod says of itself, or Prometheus of it."""
        pods = {key: self._objects.pods.get(key.name, key.namespace) for key in objects}
        direct = {key: pod for key, pod in pods.items() if pod is not None and engine_url(pod)}
        found = dict(await self._read(metric, direct))
        absent = FoundValues(problem=f"its page of metrics has no {metric.name}")
        found |= {key: absent for key, one in found.items() if not one.readings and not one.problem}
        others = [key for key in objects if key not in direct]
        if self._prometheus is not None and others:
            found |= await self._prometheus.of_pods(metric.name, others[0].namespace, others)
        return found

    async def external(self, metric: Metric, namespace: str) -> FoundValues:
        """All series in a namespace."""
        pods = {
            ObjectKey(POD_KIND.resource, namespace, pod.metadata.name): pod
            for pod in self._objects.pods_of(namespace)
            if pod.is_ready and engine_url(pod)
        }
        readings: list[Reading] = []
        problem = ""
        for key, found in (await self._read(metric, pods)).items():
            problem = problem or (f"pod {key.name}: {found.problem}" if found.problem else "")
            own = _own_labels(pods[key])
            readings += [Reading(one.amount, one.at_s, {**one.labels, **own}) for one in found.readings]
        if self._prometheus is not None:
            told = await self._prometheus.all_of(metric.name, namespace)
            problem = problem or told.problem
            # A pod that was read itself must not count twice, and its own page is the newer one.
            read = {key.name for key in pods}
            readings += [one for one in told.readings if one.labels.get("pod") not in read]
        return FoundValues(tuple(readings), problem)

    async def _read(self, metric: Metric, pods: Mapping[ObjectKey, PodFacts]) -> dict[ObjectKey, FoundValues]:
        tasks = {key: asyncio.create_task(self._read_one(metric.name, pod)) for key, pod in pods.items()}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=ALL_S)
        found: dict[ObjectKey, FoundValues] = {}
        for key, task in tasks.items():
            if task.done():
                found[key] = task.result()
            else:
                task.cancel()
                found[key] = FoundValues(problem="its page of metrics does not come in time")
        return found

    async def _read_one(self, metric: str, pod: PodFacts) -> FoundValues:
        try:
            page = await self._pages.page(engine_url(pod))
        except WorldError as error:
            return FoundValues(problem=str(error))
        # A page that gives a value a time may have it from long ago.
        return FoundValues(
            tuple(
                Reading(one.value, page.at_s if one.at_s is None else one.at_s, one.labels)
                for one in page.samples
                if one.name == metric
            )
        )


def _own_labels(pod: PodFacts) -> dict[str, str]:
    labels = pod.metadata.labels
    app = next((labels[key] for key in APP_LABELS if key in labels), "")
    return {"pod": pod.metadata.name, **({"app": app} if app else {})}
