"""Values from a Prometheus server, with the time at which it scraped them.

A query tells a value of up to five minutes ago as if it were of now, so ``timestamp`` is asked for beside it,
and a series without such a time is not served. The server is asked in a thread, within a few seconds; two
questions at once for one metric are one.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.metrics.reading import ObjectKey, Reading
from gpufleet.metrics.served_values import FoundValues
from gpufleet.metrics.sources.pages import KEPT_S
from gpufleet.model.model_errors import GpufleetError
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import named_pod
from gpufleet.usage.prometheus.moment import values_at

ANSWER_S = 5.0
"""An autoscaler waits for it; a query for one metric of one namespace takes milliseconds."""

ANSWER_BYTES_MAX = 2**23
"""One metric of one namespace: that of a thousand pods has some hundred kilobytes."""

UNDER_WAY_MAX = 16
"""A server that hangs holds a thread for each question; more than these are refused."""

Labels = tuple[tuple[str, str], ...]


class PrometheusValues:
    """Asks a server; ``source`` must itself end within about ``ANSWER_S``."""

    def __init__(self, source: Source, now: Callable[[], float] = time.time) -> None:
        self._source = source
        self._now = now
        self._kept: dict[tuple[str, str], tuple[float, asyncio.Task[FoundValues]]] = {}
        self._under_way = 0

    async def all_of(self, metric: str, namespace: str) -> FoundValues:
        """All series of a metric that are about a namespace."""
        key, now_s = (metric, namespace), self._now()
        kept = self._kept.get(key)
        if kept is None or not 0 <= now_s - kept[0] <= KEPT_S:
            old = [one for one, (at_s, _) in self._kept.items() if now_s - at_s > 60]
            for one in old:
                self._kept.pop(one)
            kept = now_s, asyncio.create_task(self._asked(metric, namespace))
            self._kept[key] = kept
        # Others may wait for the same answer: who is cancelled must not end it for them.
        return await asyncio.shield(kept[1])

    async def of_pods(
        self, metric: str, namespace: str, pods: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """What it knows of each pod."""
        told = await self.all_of(metric, namespace)
        if told.problem:
            return dict.fromkeys(pods, told)
        series: dict[str, list[Reading]] = {}
        for one in told.readings:
            series.setdefault(one.labels.get("pod", ""), []).append(one)
        return {key: FoundValues(tuple(series[key.name])) for key in pods if key.name in series}

    async def _asked(self, metric: str, namespace: str) -> FoundValues:
        if self._under_way >= UNDER_WAY_MAX:
            return FoundValues(problem="Prometheus does not answer the questions before this one")
        self._under_way += 1

        def work() -> FoundValues:
            try:
                return self._read(metric, namespace)
            except GpufleetError as error:
                return FoundValues(problem=f"Prometheus cannot be asked: {error}")
            finally:
                self._under_way -= 1

        try:
            return await asyncio.wait_for(in_daemon_thread(work), ANSWER_S)
        except TimeoutError:
            return FoundValues(problem=f"Prometheus does not answer within {ANSWER_S:.0f} s")

    def _read(self, metric: str, namespace: str) -> FoundValues:
        named = f"__name__={json.dumps(metric)}"
        # Labels of a series that a scrape did not honour are renamed.
        either = [
            f"{{{named},{label}={json.dumps(namespace)}{rest}}}"
            for label, rest in (("namespace", ',exported_namespace=""'), ("exported_namespace", ""))
        ]
        amounts = self._points(" or ".join(either))
        times = self._points(" or ".join(f"timestamp({one})" for one in either))
        # A series that is no number has a time alone. It is not left out: a sum would be too small then.
        return FoundValues(
            tuple(
                Reading(amounts.get(labels, math.nan), times.get(labels, math.nan), _plain(labels))
                for labels in amounts | times
            )
        )

    def _points(self, promql: str) -> dict[Labels, float]:
        """The newest value of each series."""
        at_s = int(self._now())
        found: dict[Labels, float] = {}
        for one in values_at(self._source, promql, at_s, "metrics"):
            found[tuple(sorted(one.labels.items()))] = one.value
        return found


def _plain(labels: Labels) -> dict[str, str]:
    """The labels with the pod that the series is about, under the names of the series itself."""
    found = dict(labels)
    pod = named_pod(found)
    for name in ("exported_pod", "exported_namespace", "instance", "job", "prometheus"):
        found.pop(name, None)
    return {**found, "namespace": pod.namespace, **({"pod": pod.name} if pod.name else {})}
