"""A real API server for tests of the operator: what one test makes there, and processes that end."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.service import Following
from tests.kube.manifests.real_server import Person
from tests.operator.builders import policy_object

NODES = "/api/v1/nodes"
POLICIES = "/apis/gpufleet.io/v1alpha1/fleetpolicies"
RBAC = "rbac.authorization.k8s.io"
PATIENCE_S = 30.0
GOLD = {"tier": "gold"}
TAINTS = [{"key": "gpu-only", "value": "yes", "effect": "NoSchedule"}]
FOREIGN_TAINT = {"key": "example.com/repair", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
NUMBERS = itertools.count()


class Stage:
    """Nodes of one test, which no other test selects, and the policies about them."""

    def __init__(self, admin: Person) -> None:
        self.admin = admin
        self.mark = f"test-{next(NUMBERS)}"
        self.policies: list[str] = []
        self.nodes: list[str] = []

    def node(self, name: str, **labels: str) -> str:
        """Make a node."""
        full = f"{self.mark}-{name}"
        metadata = {"name": full, "labels": {"mark": self.mark, **labels}}
        status, answer = self.admin.ask("POST", NODES, {"metadata": metadata})
        assert status == 201, answer
        self.nodes.append(full)
        return full

    def policy(self, name: str, **spec: Any) -> str:
        """Make a policy, or change it."""
        full = f"{self.mark}-{name}"
        written = policy_object(full, {"mark": self.mark}, **spec)
        del written["metadata"]["uid"], written["metadata"]["generation"]
        if full in self.policies:
            assert self.admin.ask("DELETE", f"{POLICIES}/{full}")[0] == 200
        else:
            self.policies.append(full)
        status, answer = self.admin.ask("POST", POLICIES, written)
        assert status == 201, answer
        return full

    def of(self, node: str) -> dict[str, Any]:
        """A node as it is."""
        return self.admin.ask("GET", f"{NODES}/{node}")[1]

    def labels(self, node: str) -> dict[str, str]:
        """Its labels, without what selects it."""
        found: dict[str, str] = self.of(node)["metadata"]["labels"]
        return {key: value for key, value in found.items() if key != "mark"}

    def taints(self, node: str) -> list[tuple[str, str]]:
        """Its taints, without those that the API server gives to a new node."""
        found = self.of(node)["spec"].get("taints", [])
        return [
            (one["key"], one["effect"]) for one in found if not one["key"].startswith("node.kubernetes.io/")
        ]

    def status(self, policy: str) -> dict[str, Any]:
        """The status of a policy."""
        found: dict[str, Any] = self.admin.ask("GET", f"{POLICIES}/{policy}")[1].get("status", {})
        return found

    def condition(self, policy: str, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        for one in self.status(policy).get("conditions", []):
            if one["type"] == kind:
                return one["status"], one["reason"]
        return "", ""

    def end(self) -> None:
        """Take everything away."""
        for policy in self.policies:
            self.admin.ask("DELETE", f"{POLICIES}/{policy}")
        for node in self.nodes:
            self.admin.ask("DELETE", f"{NODES}/{node}")


class AlwaysLeads:
    """A Lease that is held."""

    def holds(self) -> bool:
        """Always."""
        return True


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - what it waits for is outside
            await asyncio.sleep(0.1)
    assert holds(), what


@contextlib.asynccontextmanager
async def following(client: Client) -> AsyncIterator[Following]:
    """A leader at work, without the Lease."""
    found = Following(client, AlwaysLeads(), "gpufleet-system")  # type: ignore[arg-type]
    task = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def play(cluster: LocalCluster, story: Callable[[Client], Awaitable[None]]) -> None:
    """Run a story with a connection to the cluster."""

    async def run() -> None:
        async with connect(ClusterChoice(cluster.kubeconfig), connections=12) as connection:
            await story(connection.client)

    asyncio.run(run())


class Killed(BaseException):
    """The end of the process, at one write."""


class KillingTransport:
    """Ends the process before or after its Nth write; all else goes through."""

    def __init__(self, inner: Transport, at: int, *, after: bool) -> None:
        self._inner, self._at, self._after = inner, at, after
        self.writes, self.is_dead = 0, False

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass a request on, or end."""
        if request.method == "GET":
            return await self._inner.call(request, timeout_s=timeout_s)
        self.writes += 1
        number = self.writes
        if self._ends(number, is_done=False):
            raise Killed
        answer = await self._inner.call(request, timeout_s=timeout_s)
        if self._ends(number, is_done=True):
            raise Killed
        return answer

    def _ends(self, number: int, *, is_done: bool) -> bool:
        """Whether the process is over by now, with all that it had under way."""
        if number == self._at and is_done == self._after:
            self.is_dead = True
        return self.is_dead

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """Watches go through."""
        return await self._inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """The connection is closed by its owner."""
