"""Measured use from a Prometheus server that scrapes gpufleet's agents.

A server that hangs, or answers late again and again, is left after some seconds, and asked in a thread that
the end of the program does not wait for. Samples older than ``FRESH_S`` do not count: an old number is no
number.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.model.device_id import device_name
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import GpufleetError, WorldError
from gpufleet.overview.rows.idle import IDLE_BELOW
from gpufleet.overview.rows.known import Key
from gpufleet.usage.agent_series import POD_ENERGY, POD_USED, SAMPLE_AGE, is_possible, left_out
from gpufleet.usage.agent_use import NAMES, NodeUse, node_uses
from gpufleet.usage.metrics_page import SeriesValue
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import CLUSTER, Series
from gpufleet.usage.prometheus.client import MOMENT_BYTES_MAX, Prometheus, Source
from gpufleet.usage.prometheus.labels import named_pod
from gpufleet.usage.prometheus.moment import values_at
from gpufleet.usage.prometheus.window import Window

ANSWER_S = 8.0
"""For each query; a person waits for it."""
ALL_S = 20.0
"""For all queries of one look: after it no further one is asked."""
FRESH_S = 90
"""Three scrapes of half a minute."""
BEFORE_S = 60
"""How much earlier the energy is that powers follow from."""
QUIET_WINDOW_S, QUIET_STEP_S = 3600, 60


class PrometheusUse:
    """The newest measurement of each node, and why there is none.

    ``foreign`` are nodes of which the server tells, but of cards that are not theirs; ``left_out`` says which
    of its values no card can have.
    """

    def __init__(self, access: Access, source: Source | None = None) -> None:
        self.use: dict[str, NodeUse] = {}
        self.before: dict[str, NodeUse] = {}
        self.quiet_since_s: dict[Key, float] = {}
        self.foreign: frozenset[str] = frozenset()
        self.left_out = ""
        self.problem = ""
        self._source = source or Prometheus(access, total_s=ANSWER_S, bytes_max=MOMENT_BYTES_MAX)
        self._until_s = 0.0

    @property
    def url(self) -> str:
        """The server's address, for messages."""
        return self._source.url

    async def read(self, nodes: Iterable[str] | None = None, *, with_past: bool) -> None:
        """Ask for all nodes, or for these; ``with_past`` also for how long pods have been idle."""
        now_s = int(time.time())
        self._until_s = time.monotonic() + ALL_S
        chosen = ("",) if nodes is None else _selectors(nodes)
        self.left_out = ""
        try:
            self.use, self.before = await in_daemon_thread(lambda: self._measured(now_s, chosen))
            self.quiet_since_s = await in_daemon_thread(lambda: self._quiet(now_s)) if with_past else {}
        except GpufleetError as error:
            self.use, self.before, self.quiet_since_s = {}, {}, {}
            self.problem = str(error)
        else:
            nothing = self.left_out or f"{self.url} has no metrics of gpufleet's agents"
            self.problem = "" if self.use else nothing

    def leave_foreign(self, reports: Mapping[Key, NodeDevices]) -> None:
        """Forget nodes of whose reported cards the server knows none: another cluster has nodes of that
        name.
        """
        self.foreign = frozenset(
            node
            for node, use in self.use.items()
            if ("", node) in reports and use.cards and not _cards(reports["", node]) & use.cards.keys()
        )
        for node in self.foreign:
            self.use.pop(node)
            self.before.pop(node, None)

    def why_unknown(self, node: str) -> str:
        """Why there is no measurement of a node."""
        if node in self.foreign:
            return f"{self.url} tells of other GPUs than those of {node}: is it another cluster's?"
        return self.problem or self.left_out or f"{self.url} has no new metrics of {node}"

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
        for one in found:
            if not is_possible(one.name, one.value):
                self.left_out = left_out(self.url, one.name, one.value)
                break
        return node_uses(found, now_s), node_uses(earlier, now_s - BEFORE_S)

    def _last(self, name: str, promql: str, now_s: int) -> Iterator[SeriesValue]:
        if time.monotonic() > self._until_s:
            raise WorldError(
                f"{self._source.url} has not answered all questions within {ALL_S:.0f} s; "
                "look at what it has to do besides"
            )
        yield from values_at(self._source, promql, now_s, name)

    def _quiet(self, now_s: int) -> dict[Key, float]:
        by = f"namespace, pod, exported_namespace, exported_pod, {CLUSTER}"
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


def _cards(report: NodeDevices) -> set[str]:
    """The cards of a node, also of those that are given out in parts."""
    return {device_name(DeviceId(one.id)).card for one in report.spec.devices}


def _selectors(nodes: Iterable[str]) -> tuple[str, ...]:
    """Selectors of the series of these nodes, under either of the labels that name one."""
    names = "|".join(re.escape(name) for name in nodes if is_subdomain(name))
    return tuple(f"{{{label}=~`{names}`}}" for label in ("node", "exported_node"))


def quiet_since_s(series: Series, now_s: int) -> float | None:
    """Since when the use was below the bound without a gap until now; None if it is not."""
    since_s: float | None = None
    expected_s = now_s
    # The newest come first, so that the first gap, or the first use, ends the quiet time.
    for at_s, value in sorted(zip(series.times_s, series.values, strict=True), reverse=True):
        if value >= IDLE_BELOW or expected_s - at_s > QUIET_STEP_S:
            break
        since_s, expected_s = float(at_s), at_s
    return since_s
