"""Measured use from a Prometheus server that scrapes gpufleet's agents.

A server that hangs is left after a few seconds, and asked in a thread that the end of the program does not
wait for. Samples older than ``FRESH_S`` do not count: an old number is no number.
"""

import re
import time
from collections.abc import Iterable

from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import GpufleetError
from gpufleet.overview.rows.idle import IDLE_BELOW
from gpufleet.overview.rows.known import Key
from gpufleet.overview.rows.use import NAMES, NodeUse, node_uses
from gpufleet.usage.agent_series import POD_ENERGY, POD_USED, SAMPLE_AGE
from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import Series
from gpufleet.usage.prometheus.client import Prometheus, Source
from gpufleet.usage.prometheus.daemon_thread import in_daemon_thread
from gpufleet.usage.prometheus.labels import named_pod
from gpufleet.usage.prometheus.window import Window

ANSWER_S = 8.0
"""For each query; a person waits for it."""
FRESH_S = 90
"""Three scrapes of half a minute."""
BEFORE_S = 60
"""How much earlier the energy is that powers follow from."""
QUIET_WINDOW_S, QUIET_STEP_S = 3600, 60


class PrometheusUse:
    """The newest measurement of each node, and why there is none."""

    def __init__(self, access: Access, source: Source | None = None) -> None:
        self.use: dict[str, NodeUse] = {}
        self.before: dict[str, NodeUse] = {}
        self.quiet_since_s: dict[Key, float] = {}
        self.problem = ""
        self._source = source or Prometheus(access, total_s=ANSWER_S)

    async def read(self, nodes: Iterable[str] | None = None, *, with_past: bool) -> None:
        """Ask for all nodes, or for these; ``with_past`` also for how long pods have been idle."""
        now_s = int(time.time())
        chosen = ("",) if nodes is None else _selectors(nodes)
        try:
            self.use, self.before = await in_daemon_thread(lambda: self._measured(now_s, chosen))
            self.quiet_since_s = await in_daemon_thread(lambda: self._quiet(now_s)) if with_past else {}
        except GpufleetError as error:
            self.use, self.before, self.quiet_since_s = {}, {}, {}
            self.problem = str(error)
        else:
            self.problem = "" if self.use else f"{self._source.url} has no metrics of gpufleet's agents"

    def _measured(self, now_s: int, chosen: tuple[str, ...]) -> tuple[dict[str, NodeUse], dict[str, NodeUse]]:
        found: list[SeriesValue] = []
        for name in sorted(NAMES):
            newest = [f"last_over_time({name}{one}[{FRESH_S}s])" for one in chosen]
            if name == SAMPLE_AGE:
                # When Prometheus scraped it counts too.
                newest = [f"{name}{one} + (time() - timestamp({name}{one}))" for one in chosen]
            found += self._last(name, " or ".join(newest), now_s)
        energy = (f"last_over_time({POD_ENERGY}{one}[{FRESH_S}s] offset {BEFORE_S}s)" for one in chosen)
        earlier = self._last(POD_ENERGY, " or ".join(energy), now_s)
        return node_uses(found, now_s), node_uses(earlier, now_s - BEFORE_S)

    def _last(self, name: str, promql: str, now_s: int) -> Iterable[SeriesValue]:
        for answer in self._source.over(promql, Window(now_s, now_s, 1), name):
            for one in answer.series:
                if one.values:
                    yield SeriesValue(name, one.labels, one.values[-1])

    def _quiet(self, now_s: int) -> dict[Key, float]:
        by = "namespace, pod, exported_namespace, exported_pod"
        promql = f"max by ({by}) (max_over_time({POD_USED}[{QUIET_STEP_S}s]))"
        window = Window(now_s - QUIET_WINDOW_S, now_s, QUIET_STEP_S)
        found = {}
        for answer in self._source.over(promql, window, POD_USED):
            for one in answer.series:
                pod = named_pod(one.labels)
                since_s = quiet_since_s(one, now_s)
                if since_s is not None:
                    found[pod.namespace, pod.name] = since_s
        return found


def _selectors(nodes: Iterable[str]) -> tuple[str, ...]:
    """Selectors of the series of these nodes, under either of the labels that name one."""
    names = "|".join(re.escape(name) for name in nodes if is_subdomain(name))
    return tuple(f"{{{label}=~`{names}`}}" for label in ("node", "exported_node"))


def quiet_since_s(series: Series, now_s: int) -> float | None:
    """Since when the use was below the bound without a gap until now; None if it is not."""
    since_s: float | None = None
    expected_s = now_s
    for at_s, value in sorted(zip(series.times_s, series.values, strict=True), reverse=True):
        if value >= IDLE_BELOW or expected_s - at_s > QUIET_STEP_S:
            break
        since_s, expected_s = float(at_s), at_s
    return since_s
