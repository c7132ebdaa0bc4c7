"""All that a view of a fleet reads, side by side, and what is known of it at a moment.

Objects are followed; the Lease is looked at every few seconds; the engine and measured use are asked
as often as a view needs them.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.cluster.scheduler_lease import Leading, who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.overview.readings.agent_pages import AgentPages, agents_of
from gpufleet.overview.readings.kind_reader import Heard, KindReader, unheard
from gpufleet.overview.readings.prometheus_use import PrometheusUse
from gpufleet.overview.rows.engine_report import EngineReport
from gpufleet.overview.rows.idle import IDLE_BELOW
from gpufleet.overview.rows.known import FleetPart, Key, Known
from gpufleet.overview.rows.use import pod_use
from gpufleet.usage.agent_use import NodeUse

LEASE_EVERY_S = 5.0
"""A Lease ends after fifteen seconds: its end is seen soon after."""


@dataclass(frozen=True)
class Scope:
    """Whose objects are wanted: of these namespaces, or of all that may be listed.

    With ``must_be_all`` a refusal is an error. ``home`` is the namespace of the caller's kubeconfig, which is
    shown where all may not be listed.
    """

    namespaces: tuple[str, ...] = ()
    must_be_all: bool = False
    home: str = "default"


class Readings:
    """The parts. ``engine_report`` and the use are set by those who ask for them."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        scope: Scope,
        prometheus: PrometheusUse | None,
        heard: Heard = unheard,
    ) -> None:
        self.client = client
        self.settings = settings
        self.scope = scope
        self.namespaces = scope.namespaces
        self._heard = heard
        self.nodes = KindReader(client, NODES, Node, heard=heard)
        self.devices = KindReader(client, NODE_DEVICES, NodeDevices, optional=True, heard=heard)
        self.pods = [self._pods_of(one) for one in scope.namespaces or ("",)]
        self.agents = AgentPages(client)
        self.prometheus = prometheus
        self.engine_report: EngineReport | None = None
        self.engine_problem = ""
        self.leading = Leading()
        self.lease_problem = ""
        self._quiet_since_s: dict[Key, float] = {}

    def _pods_of(self, namespace: str) -> KindReader[Pod]:
        return KindReader(self.client, PODS, Pod, namespace=namespace, heard=self._heard)

    @property
    def readers(self) -> list[KindReader[Any]]:
        """The readers, one for each kind and namespace."""
        return [self.nodes, self.devices, *self.pods]

    @property
    def changes(self) -> int:
        """Grows with each change that was heard of."""
        return sum(one.changes for one in self.readers)

    async def list_all(self) -> None:
        """List everything once. Raises KubeErrors, and InputError where all pods are demanded and refused."""
        async with asyncio.TaskGroup() as group:
            for one in self.readers:
                group.create_task(one.list_once())
            group.create_task(self._look_at_lease())
        for one in self._narrowed():
            await one.list_once()

    async def follow(self) -> None:
        """List and follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in (self.nodes, self.devices):
                group.create_task(one.run())
            group.create_task(self._follow_pods())
            group.create_task(self._follow_lease())

    async def _follow_pods(self) -> None:
        first = [asyncio.ensure_future(one.run()) for one in self.pods]
        try:
            while not all(one.is_whole for one in self.pods):
                await asyncio.wait(first, timeout=0.05)
            narrowed = self._narrowed()
            if narrowed:
                for task in first:
                    task.cancel()
                first = [asyncio.ensure_future(one.run()) for one in narrowed]
            await asyncio.gather(*first)
        finally:
            for task in first:
                task.cancel()

    def _narrowed(self) -> list[KindReader[Pod]]:
        """Readers of the caller's own namespace, where those of all namespaces are refused."""
        if self.scope.namespaces or not self.pods[0].refused:
            return []
        if self.scope.must_be_all:
            expected = "the right to list them, or --namespace"
            raise InputError(self.pods[0].refused, field="--all-namespaces", expected=expected)
        self.namespaces = (self.scope.home,)
        self.pods = [self._pods_of(self.scope.home)]
        return self.pods

    async def _follow_lease(self) -> None:
        while True:
            await self._look_at_lease()
            await self.client.clock.sleep(LEASE_EVERY_S)

    async def _look_at_lease(self) -> None:
        try:
            self.leading = await who_leads(self.client, self.settings)
            self.lease_problem = ""
        except KubeError as error:
            self.lease_problem = str(error)

    async def read_use(self, nodes: Iterable[str], *, with_past: bool, only_these: bool = False) -> None:
        """Measure: all nodes from Prometheus, or these from their agents; with ``only_these`` no others from
        Prometheus either.
        """
        if self.prometheus is not None:
            await self.prometheus.read(nodes if only_these else None, with_past=with_past)
            self.prometheus.leave_foreign(self.devices.objects)
        else:
            await self.agents.read(
                list(nodes), agents_of(self.all_pods().values(), self.settings.lease_namespace)
            )
        self._note_quiet()

    def use(self) -> tuple[Mapping[str, NodeUse], Mapping[str, NodeUse]]:
        """The newest measurements and those before."""
        source = self.prometheus or self.agents
        return source.use, source.before

    def known(self) -> Known:
        """Everything as it stands now."""
        use, before = self.use()
        past = {} if self.prometheus is None else self.prometheus.quiet_since_s
        return Known(
            now=self.client.clock.now(),
            scheduler_name=self.settings.scheduler_name,
            pods=self.all_pods(),
            nodes=self.nodes.objects,
            devices=self.devices.objects,
            engine_report=self.engine_report,
            use=use,
            before=before,
            quiet_since_s={**self._quiet_since_s, **past},
            unread=self._unread(),
            namespaces=self.namespaces,
        )

    def stale_s(self) -> float | None:
        """How old the oldest objects are; None while nothing was read."""
        ages = [one.stale_s() for one in self.readers if not one.refused]
        known = [age for age in ages if age is not None]
        return max(known, default=None)

    def trouble(self) -> str:
        """Why the API server does not answer; "" if it does."""
        return next((one.trouble() for one in self.readers if one.trouble()), self.lease_problem)

    @property
    def is_whole(self) -> bool:
        """Whether every kind was listed once."""
        return all(one.is_whole for one in self.readers)

    def all_pods(self) -> Mapping[Key, Pod]:
        """The pods of all readers."""
        if len(self.pods) == 1:
            return self.pods[0].objects
        return {key: pod for one in self.pods for key, pod in one.objects.items()}

    def _unread(self) -> dict[FleetPart, str]:
        found: dict[FleetPart, str] = {}
        for part, reader in ((FleetPart.NODES, self.nodes), (FleetPart.DEVICES, self.devices)):
            if reader.refused:
                found[part] = reader.refused
        refused = [one.refused for one in self.pods if one.refused]
        if refused:
            found[FleetPart.PODS] = "; ".join(refused)
        if self.engine_report is None:
            found[FleetPart.ENGINE] = self.engine_problem or "the engine has not answered yet"
        if not self.use()[0]:
            found[FleetPart.USE] = self.use_problem() or "use has not been measured yet"
        return found

    def engine_failed(self, error: Exception) -> None:
        """The engine could not be asked; what it told before stays."""
        self.engine_problem = f"the engine could not be asked: {error}"

    def use_problem(self) -> str:
        """Why use is not known of all nodes; "" if it is."""
        if self.prometheus is None:
            return self.agents_problem()
        unknown = sorted({name for _, name in self.devices.objects} - self.prometheus.use.keys())
        if self.prometheus.problem or not unknown:
            return self.prometheus.problem or self.prometheus.left_out
        foreign = [one for one in unknown if one in self.prometheus.foreign]
        why = self.prometheus.why_unknown((foreign or unknown)[0])
        return f"use is not known on {counted(len(unknown), 'node')}: {why}"

    def agents_problem(self) -> str:
        """The most common reason for which agents could not be asked, and of how many; "" for none."""
        reasons: dict[str, int] = {}
        for why in self.agents.failed.values():
            reasons[why] = reasons.get(why, 0) + 1
        if not reasons:
            return ""
        most = max(reasons, key=lambda why: reasons[why])
        return f"use is not known on {counted(len(self.agents.failed), 'node')}: {most}"

    def _note_quiet(self) -> None:
        """Remember since when pods were measured to be idle, while this program looks on."""
        use, before = self.use()
        quiet: dict[Key, float] = {}
        for node, measured in use.items():
            for key in measured.pods:
                ratio = pod_use(key, measured, before.get(node)).used_ratio
                if ratio is not None and ratio < IDLE_BELOW:
                    quiet[key] = self._quiet_since_s.get(key, measured.at_s)
        self._quiet_since_s = quiet


@contextlib.asynccontextmanager
async def following(readings: Readings) -> Any:
    """The readings are followed during the block; an error of theirs comes out at its end."""
    task = asyncio.ensure_future(readings.follow())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
