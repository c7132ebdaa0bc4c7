"""How much waits in a queue and for how long, from the page of the scheduler that leads.

A page counts while its scheduler leads and says that its view is fresh (/readyz). Two that lead at once
contradict each other, so then nothing is known. Figures are as old as the page says: a scheduler that hangs
serves its last ones for a while.
"""

import asyncio
from collections.abc import Mapping, Sequence

from gpufleet.kube import keys
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
PENDING_AGE = "gpufleet_scheduler_queue_figures_age_seconds"
OLDEST_WAIT_AGE = "gpufleet_scheduler_waiting_figures_age_seconds"
AGES = {catalogue.QUEUE_PENDING: PENDING_AGE, catalogue.QUEUE_WAIT: OLDEST_WAIT_AGE}
"""The metric that says how old the figures are, by the metric that is asked for."""

NAMES = frozenset({LEADER, ACTIVE, PENDING, OLDEST_WAIT, *AGES.values()})
NO_LEADER = "no scheduler that leads could be read"
NO_AGE = "the scheduler that leads does not say how old its figures are"


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
        known, problem = await self._known(metric)
        if known is None:
            return dict.fromkeys(objects, FoundValues(problem=problem))
        absent = FoundValues(problem="the scheduler tells nothing of this queue")
        return {key: FoundValues((known[key.name],)) if key.name in known else absent for key in objects}

    async def external(self, metric: Metric, namespace: str) -> FoundValues:  # noqa: ARG002  queues are in none
        """All queues, with their names as labels."""
        known, problem = await self._known(metric)
        if known is None:
            return FoundValues(problem=problem)
        return FoundValues(tuple(known[name] for name in sorted(known)))

    async def _known(self, metric: Metric) -> tuple[dict[str, Reading] | None, str]:
        """A reading for each queue, by its name; None, with the reason, where nothing is known."""
        page, problem = await self._leader()
        if page is None:
            return None, problem
        amounts = _amounts(page, metric.name)
        age_s = next((one.value for one in page.samples if one.name == AGES[metric.name]), None)
        if age_s is None:
            # Of no queue there are no figures that could be old.
            return (None, NO_AGE) if amounts else ({}, "")
        at_s = page.at_s - age_s
        return {queue: Reading(amount, at_s, {"queue": queue}) for queue, amount in amounts.items()}, ""

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
            if pod.metadata.labels.get(keys.COMPONENT) == "scheduler"
            and pod.status.pod_ip
            and port_named(pod, "metrics")
        ]


def _leads(page: Page) -> bool:
    return any(one.name == LEADER and one.value == 1 for one in page.samples)


def _amounts(page: Page, metric: str) -> dict[str, float]:
    """One amount for each queue that the scheduler knows: nothing that waits is 0, and known to be."""
    amounts = {one.labels.get("queue", ""): 0.0 for one in page.samples if one.name == ACTIVE}
    for one in page.samples:
        queue = one.labels.get("queue", "")
        if metric == catalogue.QUEUE_PENDING and one.name == PENDING and queue in amounts:
            amounts[queue] += one.value
        if metric == catalogue.QUEUE_WAIT and one.name == OLDEST_WAIT and queue in amounts:
            amounts[queue] = max(amounts[queue], one.value)
    return amounts
