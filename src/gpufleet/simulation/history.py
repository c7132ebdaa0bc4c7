"""What a cluster went through, as the judge reads it: every write in order, and the requests if known.

From the simulated server it is whole. From a real server ``Recorder`` watches it together: the same judge
then runs there, without what only the server knows (the user of a write, what was refused).
"""

import asyncio
from collections.abc import Iterable

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Request, Transport
from gpufleet.simulation.api_server import Answered, ApiServer
from gpufleet.simulation.object_store import KindKey, Written
from gpufleet.simulation.refusal import JsonObject

PODS: KindKey = ("", "pods")
NODES: KindKey = ("", "nodes")
CLAIMS: KindKey = ("", "persistentvolumeclaims")
VOLUMES: KindKey = ("", "persistentvolumes")
LEASES: KindKey = ("coordination.k8s.io", "leases")
NODE_DEVICES: KindKey = ("gpufleet.io", "nodedevices")
FLEET_QUEUES: KindKey = ("gpufleet.io", "fleetqueues")
NAMESPACES: KindKey = ("", "namespaces")
PRIORITY_CLASSES: KindKey = ("scheduling.k8s.io", "priorityclasses")
EVENTS_OF_ANY_GROUP: tuple[KindKey, KindKey] = (("", "events"), ("events.k8s.io", "events"))
RECORDED = {
    NAMESPACES: "/api/v1/namespaces",
    PRIORITY_CLASSES: "/apis/scheduling.k8s.io/v1/priorityclasses",
    FLEET_QUEUES: "/apis/gpufleet.io/v1alpha1/fleetqueues",
    PODS: "/api/v1/pods",
    NODES: "/api/v1/nodes",
    LEASES: "/apis/coordination.k8s.io/v1/leases",
    NODE_DEVICES: "/apis/gpufleet.io/v1alpha1/nodedevices",
}


class Rules(msgspec.Struct, frozen=True):
    """What the run promised: names, deadlines, and when the world was whole again.

    ``calm_since_s``: since when no fault, user or controller has changed anything that matters.
    ``blind_until_s``: until when no scheduler could be asked to keep a deadline.
    """

    scheduler_name: str = "gpufleet"
    scheduler_users: frozenset[str] = frozenset()
    gang_deadline_s: float = 600.0
    gang_grace_s: float = 60.0
    settle_s: float = 60.0
    calm_since_s: float = 0.0
    blind_until_s: float = 0.0
    poisoned: frozenset[str] = frozenset()
    """Uids of objects that were broken on purpose."""

    swapped: frozenset[str] = frozenset()
    """Uids of pods to which a kubelet gave other devices than granted."""

    tenants: frozenset[str] = frozenset()
    """Users with rights in a namespace alone."""

    grants_required: bool = False
    """Whether nodes give no GPU without a grant."""


class History(msgspec.Struct, frozen=True):
    """The writes of one run, and what the judge is told of it."""

    writes: tuple[Written, ...]
    ended_at_s: float
    rules: Rules
    requests: tuple[Answered, ...] = ()

    def of(self, kind: KindKey) -> Iterable[Written]:
        """The writes of one kind."""
        return (written for written in self.writes if written.kind == kind)

    def final(self, kind: KindKey) -> dict[tuple[str, str], JsonObject]:
        """The objects of one kind as the run left them."""
        found: dict[tuple[str, str], JsonObject] = {}
        for written in self.of(kind):
            if written.value is None:
                found.pop(written.name, None)
            else:
                found[written.name] = written.value
        return found


def of_server(server: ApiServer, rules: Rules) -> History:
    """The history of a simulated server up to now."""
    return History(tuple(server.store.history), server.clock.monotonic_s(), rules, tuple(server.answered))


class Recorder:
    """Watches a server from outside and keeps every write it is told of."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._writes: list[Written] = []
        self._known: dict[tuple[KindKey, str, str], JsonObject] = {}
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """Record until cancelled. Raises KubeError where a watch breaks: a history with holes is none."""
        async with asyncio.TaskGroup() as group:
            positions = [await self._list(kind) for kind in RECORDED]
            self.listed.set()
            for kind, position in zip(RECORDED, positions, strict=True):
                group.create_task(self._follow(kind, position))

    def history(self, rules: Rules) -> History:
        """Everything recorded so far, in the server's order."""
        writes = sorted(self._writes, key=lambda written: written.revision)
        return History(tuple(writes), self._clock.monotonic_s(), rules)

    async def _list(self, kind: KindKey) -> str:
        response = await self._transport.call(Request("GET", RECORDED[kind]), timeout_s=60)
        value = msgspec.json.decode(response.body)
        for item in value.get("items") or []:
            self._keep(kind, item, gone=False)
        position: str = value["metadata"].get("resourceVersion", "0") if response.status == 200 else "0"
        return position

    async def _follow(self, kind: KindKey, position: str) -> None:
        while True:
            target = f"{RECORDED[kind]}?watch=true&resourceVersion={position}&timeoutSeconds=3600"
            stream = await self._transport.open(Request("GET", target), timeout_s=60)
            rest = b""
            async for chunk in stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    self._keep(kind, event["object"], gone=event["type"] == "DELETED")
                    position = event["object"]["metadata"]["resourceVersion"]

    def _keep(self, kind: KindKey, value: JsonObject, *, gone: bool) -> None:
        metadata = value["metadata"]
        name = (metadata.get("namespace", ""), metadata["name"])
        before = self._known.pop((kind, *name), None)
        if not gone:
            self._known[kind, *name] = value
        at_s = self._clock.monotonic_s()
        revision = int(metadata["resourceVersion"])
        now = None if gone else value
        self._writes.append(Written(revision, at_s, kind, name, now, value if gone else before, ""))
