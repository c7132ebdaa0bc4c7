"""What really happened, from the API server: a recording that outlives the server, with who did what.

``gpufleet.simulation.history.Recorder`` watches; here it also finds back after its own watch broke, because
some faults end the server itself. A list then tells what it missed, as one write for each object that
changed meanwhile. Who wrote is not in a watch: the proxies in front of the schedulers know it.
"""

import asyncio

import msgspec

from gpufleet.auditor import pods
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.transport import Request, Response, Transport
from gpufleet.simulation.api_server import Answered
from gpufleet.simulation.history import PODS, RECORDED, History, Recorder, Rules
from gpufleet.simulation.object_store import KindKey, Written
from gpufleet.simulation.refusal import JsonObject

AGAIN_AFTER_S = 0.2


class StageClock(MachineClock):
    """The machine's time, counted from the beginning of the play."""

    def __init__(self) -> None:
        self._began_s = asyncio.get_running_loop().time()

    def monotonic_s(self) -> float:
        """Seconds since the beginning."""
        return super().monotonic_s() - self._began_s


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = "0"
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta = _Meta()


_OBJECT = msgspec.json.Decoder(_Object)


class LastingRecorder(Recorder):
    """A recorder that goes on after its watches broke, and knows what the schedulers asked for."""

    def __init__(self, transport: Transport, clock: StageClock) -> None:
        super().__init__(transport, clock)
        self.requests: list[Answered] = []
        self.bindings = 0
        self.holes = 0
        self._written_by: dict[int, str] = {}
        self._evicted: dict[str, str] = {}
        self._deleted: dict[str, str] = {}

    def note(self, asked: Answered, response: Response | None) -> None:
        """A request of a scheduler."""
        asked = msgspec.structs.replace(asked, at_s=self._clock.monotonic_s())
        self.requests.append(asked)
        self.bindings += asked.code == 201 and asked.target.endswith("/binding")
        if response is None or response.status >= 300 or "/pods/" not in asked.target:
            return
        path = asked.target.partition("?")[0]
        if path.endswith("/eviction"):
            self._evicted[_precondition(asked.body)] = asked.user
        elif asked.method == "DELETE":
            self._deleted[_precondition(asked.body)] = asked.user
        elif asked.method == "PATCH":
            self._written_by[int(_OBJECT.decode(response.body).metadata.resource_version)] = asked.user

    def sign(self, revision: int, user: str) -> None:
        """Who wrote this revision, where somebody else than a scheduler's proxy knows it."""
        self._written_by[revision] = user

    def changes_of(self, *kinds: KindKey) -> int:
        """How many writes of these kinds were heard of."""
        return sum(written.kind in kinds for written in self._writes)

    def now(self, kind: KindKey = PODS) -> dict[tuple[str, str], JsonObject]:
        """The objects of a kind, by namespace and name, as last heard."""
        return {(space, name): value for (one, space, name), value in self._known.items() if one == kind}

    @property
    def revision(self) -> int:
        """The newest revision that was heard of."""
        return max((written.revision for written in self._writes[-50:]), default=0)

    def history(self, rules: Rules) -> History:
        """Everything so far, with the schedulers' writes under their name and all of their requests."""
        found = super().history(rules)
        writes = tuple(self._signed(written) for written in found.writes)
        return msgspec.structs.replace(found, writes=writes, requests=tuple(self.requests))

    def _signed(self, written: Written) -> Written:
        user = self._written_by.get(written.revision, "")
        if not user and written.kind == PODS and _leaves(written):
            uid = written.latest["metadata"]["uid"]
            # The server adds the condition before it lets an evicted pod end. Without it another's deletion
            # came first, such as that of the garbage collector, and the eviction found a pod that was ending.
            evicted = pods.condition(written.latest, "DisruptionTarget") is not None
            user = self._evicted.get(uid, "") if evicted else self._deleted.get(uid, "")
        return msgspec.structs.replace(written, user=user) if user else written

    async def _follow(self, kind: KindKey, position: str) -> None:
        while True:
            try:
                await super()._follow(kind, position)
            except (KubeError, KeyError, msgspec.DecodeError):
                # KeyError: an ERROR event has no resourceVersion; the server forgot our position.
                self.holes += 1
                position = await self._find_back(kind)

    async def _find_back(self, kind: KindKey) -> str:
        while True:
            await asyncio.sleep(AGAIN_AFTER_S)
            try:
                response = await self._transport.call(Request("GET", RECORDED[kind]), timeout_s=10)
            except KubeError:
                continue
            if response.status == 200:
                break
        value = msgspec.json.decode(response.body)
        position: str = value["metadata"]["resourceVersion"]
        listed = {(item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
                  for item in value.get("items") or []}  # fmt: skip
        for name, known in self.now(kind).items():
            found = listed.pop(name, None)
            same = found is not None and found["metadata"]["uid"] == known["metadata"]["uid"]
            if not same:
                gone = {**known, "metadata": {**known["metadata"], "resourceVersion": position}}
                self._keep(kind, gone, gone=True)
            if found is not None and found["metadata"]["resourceVersion"] != _version(known):
                self._keep(kind, found, gone=False)
        for item in listed.values():
            self._keep(kind, item, gone=False)
        return position


def _version(value: JsonObject) -> str:
    version: str = value["metadata"]["resourceVersion"]
    return version


def _leaves(written: Written) -> bool:
    """Whether this write began or ended the pod's way out."""
    before = written.before or {"metadata": {}}
    going = written.value is None or "deletionTimestamp" in written.value["metadata"]
    return going and "deletionTimestamp" not in before["metadata"]


def _precondition(body: bytes) -> str:
    """The uid that an eviction or a deletion was for."""
    value = msgspec.json.decode(body) if body else {}
    options = value.get("deleteOptions", value)
    uid: str = (options.get("preconditions") or {}).get("uid", "")
    return uid
