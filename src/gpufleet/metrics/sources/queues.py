"""How much waits in a queue and for how long, from the page of the scheduler that leads.

A page counts while its scheduler leads and says that its view is fresh (/readyz). Two that lead at once
contradict each other, so then nothing is known. Figures are those of its last look, at most seven seconds
before.
"""

import asyncio
from collections.abc import Mapping, Sequence

from gpufleet.metrics import catalogue
from gpufleet.metrics.catalogue import Metric
from gpufleet.metrics.cluster_objects import ClusterObjects
from gpufleet.metrics.reading import ObjectKey, Reading
from gpufleet.metrics.served_values import FoundValues
from gpufleet.metrics.sources.pages import Page, Pages
from gpufleet.metrics.sources.pod_pages import host_in_url, port_named
from gpufleet.model.model_errors import WorldError

LEADER = "gpufleet_scheduler_leader"
ACTIVE = "gpufleet_scheduler_queue_active"
PENDING = "gpufleet_scheduler_queue_pending_pods"
OLDEST_WAIT = "gpufleet_scheduler_oldest_wait_seconds"
NAMES = frozenset({LEADER, ACTIVE, PENDING, OLDEST_WAIT})
COMPONENT = "app.kubernetes.io/component"
POLL_EVERY_S = 7.0
"""How old the scheduler's own look may be when it is told: its pause, and a beat of a second."""

NO_LEADER = "no scheduler that leads could be read"


class Queues:
    """Reads the scheduler. ``urls`` names it where it is no pod of ``namespace``."""

    def __init__(
        self,
        objects: ClusterObjects,
        pages: Pages,
        *,
        namespace: str,
        scheme: str,
        urls: Sequence[str] = (),
    ) -> None:
        self._objects = objects
        self._pages = pages
        self._namespace = namespace
        self._scheme = scheme
        self._urls = urls

    async def of_objects(
        self, metric: Metric, objects: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """What is known of each queue."""
        page, problem = await self._leader()
        if page is None:
            return dict.fromkeys(objects, FoundValues(problem=problem))
        known = _figures(page, metric.name)
        absent = FoundValues(problem="the scheduler tells nothing of this queue")
        return {key: known.get(key.name, absent) for key in objects}

    async def external(self, metric: Metric, namespace: str) -> FoundValues:  # noqa: ARG002  queues are in none
        """All queues, with their names as labels."""
        page, problem = await self._leader()
        if page is None:
            return FoundValues(problem=problem)
        figures = _figures(page, metric.name)
        return FoundValues(tuple(one for name in sorted(figures) for one in figures[name].readings))

    async def _leader(self) -> tuple[Page | None, str]:
        urls = self._urls or self._schedulers()
        pages = await asyncio.gather(*(self._read(url) for url in urls))
        leading = [page for page in pages if isinstance(page, Page) and _leads(page)]
        if len(leading) == 1:
            return leading[0], ""
        if leading:
            return None, "two schedulers say that they lead"
        problems = [one for one in pages if isinstance(one, str)]
        return None, f"{NO_LEADER}: {problems[0]}" if problems else NO_LEADER

    async def _read(self, url: str) -> Page | str:
        try:
            page = await self._pages.page(f"{url}/metrics")
            # It refuses while its view of the cluster is old.
            await self._pages.page(f"{url}/readyz")
        except WorldError as error:
            return str(error)
        return page

    def _schedulers(self) -> list[str]:
        return [
            f"{self._scheme}://{host_in_url(pod.status.pod_ip)}:{port_named(pod, 'metrics')}"
            for pod in self._objects.pods_of(self._namespace)
            if pod.metadata.labels.get(COMPONENT) == "scheduler"
            and pod.status.pod_ip
            and port_named(pod, "metrics")
        ]


def _leads(page: Page) -> bool:
    return any(one.name == LEADER and one.value == 1 for one in page.samples)


def _figures(page: Page, metric: str) -> dict[str, FoundValues]:
    """One reading for each queue that the scheduler knows: nothing that waits is 0, and known to be."""
    amounts = {one.labels.get("queue", ""): 0.0 for one in page.samples if one.name == ACTIVE}
    for one in page.samples:
        queue = one.labels.get("queue", "")
        if metric == catalogue.QUEUE_PENDING and one.name == PENDING and queue in amounts:
            amounts[queue] += one.value
        if metric == catalogue.QUEUE_WAIT and one.name == OLDEST_WAIT and queue in amounts:
            amounts[queue] = max(amounts[queue], one.value)
    at_s = page.at_s - POLL_EVERY_S
    return {
        queue: FoundValues((Reading(amount, at_s, {"queue": queue}),)) for queue, amount in amounts.items()
    }
