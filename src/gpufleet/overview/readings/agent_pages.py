"""Pages of metrics of agents, read through the API server with the caller's own rights.

An agent that is a pod is reached by ``pods/proxy``, which needs the right ``get`` on it. Where a node's agent
is no pod, as on a local cluster, the node's port is asked by ``nodes/proxy``. Each node is asked with a time
limit, a few at once, and one that failed is left alone for a while, so that a sick node costs nothing.
"""

import asyncio
from collections.abc import Iterable, Mapping

from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.installation import AGENTS
from gpufleet.kube.kube_errors import KubeError, TransportError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import NODES, PODS
from gpufleet.kube.status import Forbidden, NotFound, StatusError, Unauthorized
from gpufleet.model.model_errors import GpufleetError, WorldError
from gpufleet.overview.rows.known import Key
from gpufleet.usage.agent_use import NAMES, NodeUse, node_uses
from gpufleet.usage.metrics_page import values_on

AT_ONCE = 8
"""Nodes that are asked at one time."""
TIMEOUT_S = 3.0
PAGE_BYTES_MAX = 8 << 20
"""A page has some hundred kilobytes; a server that sends more is no agent."""
# A node that hangs costs its time limit once in so long.
FAILED_AGAIN_S = 15.0
METRICS_PORT = 9400
"""The agent's default, and the port of dcgm-exporter."""
FRESH_S = 90.0
"""A measurement of a node that had no turn since is old, and an old number is no number."""
SCHEMES = ("", "https:")


def agents_of(pods: Iterable[Pod], namespace: str) -> dict[str, Key]:
    """The agent's pod on each node that has one, of the DaemonSet that the chart installs in this
    namespace.
    """
    return {
        pod.spec.node_name: (namespace, pod.metadata.name)
        for pod in pods
        if pod.metadata.namespace == namespace and pod.spec.node_name and _is_agent(pod)
    }


def _is_agent(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and (owner.kind, owner.name) == ("DaemonSet", AGENTS)


class AgentPages:
    """The newest measurement of each node that was asked, the one before, and why others have none."""

    def __init__(self, client: Client) -> None:
        self.use: dict[str, NodeUse] = {}
        self.before: dict[str, NodeUse] = {}
        self.failed: dict[str, str] = {}
        self._client = client
        self._scheme = SCHEMES[0]
        self._again_at_s: dict[str, float] = {}

    async def read(self, nodes: Iterable[str], agents: Mapping[str, Key]) -> None:
        """Ask the agents of these nodes."""
        now_s = self._client.clock.monotonic_s()
        self._forget_old()
        due = [node for node in nodes if self._again_at_s.get(node, 0.0) <= now_s]
        places = asyncio.Semaphore(AT_ONCE)

        async def one(node: str) -> None:
            async with places:
                await self._ask(node, agents.get(node))

        async with asyncio.TaskGroup() as group:
            for node in due:
                group.create_task(one(node))

    def _forget_old(self) -> None:
        oldest_s = self._client.clock.now().timestamp() - FRESH_S
        for node in [node for node, use in self.use.items() if use.at_s < oldest_s]:
            self.use.pop(node)
            self.before.pop(node, None)

    async def _ask(self, node: str, agent: Key | None) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                page = await self._page(node, agent)
            at_s = self._client.clock.now().timestamp()
            found = node_uses(values_on(page, NAMES), at_s, node).get(node, NodeUse(at_s))
        except (GpufleetError, TimeoutError, UnicodeDecodeError) as error:
            self.failed[node] = _why(error, agent)
            # What was measured before is old now, and an old number is no number.
            self.use.pop(node, None)
            self.before.pop(node, None)
            self._again_at_s[node] = self._client.clock.monotonic_s() + FAILED_AGAIN_S
            return
        if node in self.use:
            self.before[node] = self.use[node]
        self.use[node] = found
        self.failed.pop(node, None)

    async def _page(self, node: str, agent: Key | None) -> str:
        if agent is None:
            return await self._read(NODES.item(f"{node}:{METRICS_PORT}", subresource="proxy"))
        namespace, name = agent
        # The scheme that worked last comes first: a wrong one costs a read of each agent.
        for scheme in sorted(SCHEMES, key=lambda one: one != self._scheme):
            # Without a port the server takes the pod's first, which is that of metrics.
            part = f"{scheme}{name}:" if scheme else name
            try:
                page = await self._read(PODS.item(part, namespace, "proxy"))
            except (Forbidden, Unauthorized, NotFound, TransportError):
                raise
            except KubeError:
                # The first scheme may just be the wrong one; the answer to the second counts.
                if scheme != self._scheme:
                    raise
            else:
                self._scheme = scheme
                return page
        raise WorldError("it answers neither over HTTP nor over HTTPS")

    async def _read(self, target: str) -> str:
        body = await self._client.read(f"{target}/metrics", retry_limits=ONE_TRY, most_bytes=PAGE_BYTES_MAX)
        return body.decode()


def _why(error: Exception, agent: Key | None) -> str:
    if isinstance(error, Forbidden):
        if agent is None:
            return "you may not get nodes/proxy, and no pod is the agent of the node"
        return f"you may not get pods/proxy in {agent[0]}"
    if isinstance(error, NotFound):
        return "there is no agent"
    if isinstance(error, TimeoutError):
        return f"its agent does not answer within {TIMEOUT_S:.0f} s"
    if agent is None and isinstance(error, StatusError):
        return "no agent can be reached there"
    return f"its agent cannot be asked: {error}"
