"""Use, memory and power of pods and nodes, from the agents of the nodes.

Only the agents of nodes that are asked about are read, at the moment of the question, and they read their
GPUs anew for it. ``agent_readings`` says what is served of that.
"""

import asyncio
from collections.abc import Mapping, Sequence

from gpufleet.daemon.http_server import NEWEST
from gpufleet.kube.installation import AGENTS
from gpufleet.metrics.catalogue import Metric
from gpufleet.metrics.cluster_objects import ClusterObjects, PodFacts
from gpufleet.metrics.reading import NODE_KIND, ObjectKey
from gpufleet.metrics.served_values import FoundValues
from gpufleet.metrics.sources.agent_readings import APART_S, readings_of
from gpufleet.metrics.sources.pages import Pages
from gpufleet.metrics.sources.pod_pages import host_in_url, port_named
from gpufleet.model.model_errors import WorldError
from gpufleet.usage.agent_use import NodeUse, node_uses

AGENT_PORT = 9400
"""The agent's default."""

PAGE = f"/metrics?{NEWEST}"

ALL_S = 8.0
"""For all pages of a question: what comes later is unknown to this one."""


class Agents:
    """Reads agents. ``on_nodes``: where no pod is the agent of a node, the node's own port is asked."""

    def __init__(
        self, objects: ClusterObjects, pages: Pages, *, namespace: str, scheme: str, on_nodes: bool
    ) -> None:
        self._objects = objects
        self._pages = pages
        self._namespace = namespace
        self._scheme = scheme
        self._on_nodes = on_nodes
        self._use: dict[str, NodeUse] = {}
        self._before: dict[str, NodeUse] = {}

    async def of_objects(
        self, metric: Metric, objects: Sequence[ObjectKey]
    ) -> Mapping[ObjectKey, FoundValues]:
        """What the agents know of pods or nodes."""
        nodes = {key: self._node_of(key) for key in objects}
        problems = await self._read({node for node in nodes.values() if node})
        found: dict[ObjectKey, FoundValues] = {}
        for key, node in nodes.items():
            if not node:
                found[key] = FoundValues(problem="it is on no node")
            elif node in problems:
                found[key] = FoundValues(problem=problems[node])
            else:
                readings, problem = readings_of(
                    metric.name, key, node, self._use[node], self._before.get(node)
                )
                found[key] = FoundValues(tuple(readings), problem)
        return found

    async def external(self, metric: Metric, namespace: str) -> FoundValues:  # noqa: ARG002  the protocol's
        """Nothing is served of agents without an object."""
        return FoundValues()

    def _node_of(self, key: ObjectKey) -> str:
        if key.resource == NODE_KIND.resource:
            return key.name
        pod = self._objects.pods.get(key.name, key.namespace)
        return "" if pod is None or pod.has_ended else pod.spec.node_name

    async def _read(self, nodes: set[str]) -> dict[str, str]:
        """Read the pages of these nodes; why some were not."""
        agents = self._agents()
        tasks = {node: asyncio.create_task(self._read_one(node, agents.get(node))) for node in sorted(nodes)}
        if tasks:
            # What came in time is kept, so that an agent that hangs costs only its own node's values.
            await asyncio.wait(tasks.values(), timeout=ALL_S)
        problems: dict[str, str] = {}
        for node, task in tasks.items():
            if not task.done():
                task.cancel()
                problems[node] = f"the agent of node {node} does not answer in time"
            elif (error := task.exception()) is not None:
                # A fault of ours must be seen; it says nothing about the agent.
                if not isinstance(error, WorldError):
                    raise error
                problems[node] = f"the agent of node {node} cannot be read: {error}"
        return problems

    async def _read_one(self, node: str, agent: PodFacts | None) -> None:
        page = await self._pages.page(self._url(node, agent))
        use = node_uses(page.samples, page.at_s, node).get(node, NodeUse(page.at_s))
        known = self._use.get(node)
        # A page that was kept for a moment comes again as it was, and is no second measurement.
        if known is not None and known.at_s != use.at_s:
            apart_s = use.at_s - known.at_s
            if apart_s > APART_S[1]:
                self._before.pop(node, None)
            if APART_S[0] <= apart_s <= APART_S[1]:
                self._before[node] = known
        self._use[node] = use

    def _url(self, node: str, agent: PodFacts | None) -> str:
        if agent is not None:
            port = port_named(agent, "metrics") or AGENT_PORT
            return f"{self._scheme}://{host_in_url(agent.status.pod_ip)}:{port}{PAGE}"
        found = self._objects.nodes.get(node)
        if found is None or not found.address or not self._on_nodes:
            raise WorldError("no pod there is an agent")
        return f"{self._scheme}://{host_in_url(found.address)}:{AGENT_PORT}{PAGE}"

    def _agents(self) -> dict[str, PodFacts]:
        """The agent of each node, of the DaemonSet that the chart installs in this namespace."""
        return {
            pod.spec.node_name: pod
            for pod in self._objects.pods_of(self._namespace)
            if pod.spec.node_name and pod.status.pod_ip and _is_agent(pod)
        }


def _is_agent(pod: PodFacts) -> bool:
    owner = pod.metadata.controller
    return owner is not None and (owner.kind, owner.name) == ("DaemonSet", AGENTS)
