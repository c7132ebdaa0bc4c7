"""Faults between a scheduler and a real server that the simulation has in another form, or not at all."""

import abc
import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from random import Random
from typing import TYPE_CHECKING

import msgspec

from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import NODES, PODS
from gpufleet.kube.status import NotFound
from gpufleet.kube.transport import Request, Response, ResponseStream, TransportError
from gpufleet.simulation.cluster_recipe import NAMESPACE
from gpufleet.simulation.faults.interference import is_binding, is_write, status, whole_lines
from tests.chaos.proxy import PASSING, CutAnswerError
from tests.chaos.stage import LiveFault, Stage

if TYPE_CHECKING:
    from gpufleet.simulation.world import SchedulerProcess

ELSEWHERE = "elsewhere"
LAG_REVISIONS = 40


class SlowAnswers(LiveFault):
    """Every answer takes its time, some of them more than the Lease's."""

    name = "slow-answers"

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        if self.chance(0.7):
            await asyncio.sleep(self.random.choice((0.05, 0.3, 1.0, 2.5)))
        return response


class AnswerCut(LiveFault):
    """A connection breaks in the middle of an answer's body: of lists, of Leases, of Bindings."""

    name = "answer-cut"

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        if self.chance(0.3):
            raise CutAnswerError(response)
        return response


class ServerErrors(LiveFault):
    """Bursts of 500, 502, 503 and 504, in front of the server and behind it."""

    name = "server-errors"

    def _answer(self) -> Response:
        code, reason = self.random.choice(
            ((500, "InternalError"), (502, "BadGateway"), (503, "ServiceUnavailable"), (504, "Timeout"))
        )
        return status(code, reason, "the server could not")

    async def before_call(self, request: Request, owner: "SchedulerProcess | None") -> Response | None:
        return self._answer() if self.chance(0.3) else None

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        return self._answer() if self.chance(0.2) else response

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        return self._answer() if self.chance(0.3) else None


class WritesTwice(LiveFault):
    """Every write arrives twice, the second time a little later, as a proxy that repeats would have it."""

    name = "writes-twice"

    async def prepare_stage(self, stage: Stage) -> None:
        self._way = stage.scheduler_way
        self._later: set[asyncio.Task[None]] = set()

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        if is_write(request) and self.chance(0.8):
            task = asyncio.create_task(self._again(request, self.random.choice((0.0, 0.1, 1.0))))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        return response

    async def _again(self, request: Request, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self._way.call(request, timeout_s=30)
        except TransportError:
            return


class LaggingServer(LiveFault):
    """Lists and watches come from a server that is some revisions behind.

    The real one is asked for a state of the past: ``resourceVersionMatch=Exact`` for a list, an older
    resourceVersion for a watch.
    """

    name = "lagging-second-server"

    async def prepare_stage(self, stage: Stage) -> None:
        self._stage = stage
        self._oldest = 0

    async def act(self, stage: Stage, lasts_s: float) -> None:
        self._oldest = stage.recorder.revision
        await super().act(stage, lasts_s)

    def _past(self, version: int) -> int:
        return max(self._oldest, version - self.random.randint(1, LAG_REVISIONS))

    def rewrite(self, request: Request) -> Request:
        first_page = "limit=" in request.target and "continue=" not in request.target
        if request.method != "GET" or not first_page or not self._oldest or not self.chance(0.7):
            return request
        past = self._past(self._stage.recorder.revision)
        target = f"{request.target}&resourceVersion={past}&resourceVersionMatch=Exact"
        return Request("GET", target, accept=request.accept)

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        found = re.search(r"([?&]resourceVersion=)([0-9]+)", request.target)
        if found is None or int(found[2]) <= self._oldest or not self.chance(0.8):
            return None
        target = request.target.replace(found[0], f"{found[1]}{self._past(int(found[2]))}")
        return await self._stage.scheduler_way.open(Request("GET", target), timeout_s=30)

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            yield line
            if self.active and self.random.random() < 0.2:
                return


class _Overtaking(LiveFault, abc.ABC):
    """Something that happens to a pod just before its Binding arrives."""

    async def prepare_stage(self, stage: Stage) -> None:
        self._stage = stage

    async def before_call(self, request: Request, owner: "SchedulerProcess | None") -> Response | None:
        if is_binding(request) and self.chance(0.3):
            name = request.target.split("/")[6]
            try:
                await self.overtake(name)
            except KubeError as problem:
                self._stage.tell(f"{name} could not be overtaken: {problem}")
        return None

    @abc.abstractmethod
    async def overtake(self, name: str) -> None:
        """Do it."""


class BindConflict(_Overtaking):
    """Another scheduler takes the pod first, to a node of its own."""

    name = "bind-conflict"

    async def prepare_stage(self, stage: Stage) -> None:
        await super().prepare_stage(stage)
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        body = {
            "metadata": {"name": ELSEWHERE, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"unschedulable": True},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        await stage.client.create(NODES, body, name=ELSEWHERE)

    async def overtake(self, name: str) -> None:
        pod = msgspec.json.decode(await self._stage.client.get(PODS, name, namespace=NAMESPACE))
        uid = pod["metadata"]["uid"]
        await self._stage.client.bind(name, namespace=NAMESPACE, uid=uid, node=ELSEWHERE)


class PodChanged(_Overtaking):
    """The pod is deleted, edited, or deleted and made anew under its name."""

    name = "pod-changed-before-bind"

    async def overtake(self, name: str) -> None:
        traffic = self._stage.traffic
        if self.random.random() < 0.4:
            labels = {"metadata": {"labels": {"edited": "yes"}}}
            await self._stage.client.patch(PODS, name, labels, namespace=NAMESPACE)
        elif name not in traffic.bare:
            await self._stage.client.delete(PODS, name, namespace=NAMESPACE)
        else:
            await make_anew(self._stage, name)


class SameNameAgain(LiveFault):
    """Bare pods are deleted and made anew under their names while no watch says anything."""

    name = "delete-create-same-name"

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._hushed = False
        self._expired = 0

    async def act(self, stage: Stage, lasts_s: float) -> None:
        limit_s = stage.clock.monotonic_s() + lasts_s
        while stage.clock.monotonic_s() < limit_s:
            await asyncio.sleep(0.5)
            if not stage.traffic.bare:
                continue
            self._hushed = True
            for name in self.random.sample(sorted(stage.traffic.bare), min(2, len(stage.traffic.bare))):
                await make_anew(stage, name)
                self.acted += 1
            await asyncio.sleep(0.5)
            self._expired, self._hushed = 2, False

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        if self._hushed:
            raise TransportError("connection reset by peer", reached=True)
        if self._expired and "/pods" in request.target:
            self._expired -= 1
            return status(410, "Expired", "too old resource version")
        return None

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            if self._hushed:
                raise TransportError("connection reset by peer", reached=True)
            yield line


async def make_anew(stage: Stage, name: str) -> None:
    """Delete a bare pod, wait until it is gone, and make another one under its name."""
    found = stage.recorder.now().get((NAMESPACE, name))
    if found is None or stage.traffic.bare.pop(name, None) is None:
        return
    with contextlib.suppress(NotFound):
        await stage.client.delete(PODS, name, namespace=NAMESPACE, grace_s=0)
        while await stage.client.get(PODS, name, namespace=NAMESPACE):  # noqa: ASYNC110  (KWOK ends it)
            await asyncio.sleep(0.02)
    notes = {
        key: text for key, text in (found["metadata"].get("annotations") or {}).items() if "grant" not in key
    }
    spec = {"schedulerName": "gpufleet", "containers": found["spec"]["containers"]}
    for container in spec["containers"]:
        container.pop("volumeMounts", None)
    await stage.traffic.pod({"metadata": {"name": name, "annotations": notes}, "spec": spec})


class GangMemberRefused(LiveFault):
    """One member of each gang is refused wherever it shall go, until long past the gang's deadline."""

    name = "gang-member-refused"

    async def prepare_stage(self, stage: Stage) -> None:
        self._stage = stage
        self._refused: dict[str, str] = {}

    async def before_call(self, request: Request, owner: "SchedulerProcess | None") -> Response | None:
        if not is_binding(request):
            return None
        name = request.target.split("/")[6]
        gang = name.rpartition("-")[0]
        if gang not in self._stage.traffic.sets or not gang.startswith("gang-"):
            return None
        if self._refused.setdefault(gang, name) == name and self.chance(1.0):
            return status(422, "Invalid", "the node takes none of these")
        return None


class LeaseUnreachable(LiveFault):
    """The leader cannot renew its Lease, and its Bindings arrive when another leads already."""

    name = "two-leaders"

    async def prepare_stage(self, stage: Stage) -> None:
        self._stage = stage
        self._cut: object = None
        self._release = asyncio.Event()
        self._held = 0

    async def before_call(self, request: Request, owner: "SchedulerProcess | None") -> Response | None:
        if PASSING.get().proxy is not self._cut:
            return None
        if "/leases" in request.target:
            raise TransportError("connection reset by peer", reached=True)
        if is_binding(request) and not self._release.is_set():
            self._held += 1
            await self._release.wait()
        return None

    async def act(self, stage: Stage, lasts_s: float) -> None:
        limit_s = stage.clock.monotonic_s() + lasts_s
        while stage.clock.monotonic_s() < limit_s or not self.acted:
            await stage.until(lambda: stage.leader() is not None)
            first = stage.leader()
            assert first is not None
            identity = first.identity
            self._held, self._cut = 0, first.proxy
            self._release.clear()
            stage.tell(f"{identity} is cut off from its Lease, and its Bindings are late")
            await stage.until(lambda: self._held > 0)
            await stage.until(lambda: (now := stage.leader()) is not None and now.identity != identity)  # noqa: B023
            await asyncio.sleep(1.0)  # the new leader binds
            self.acted += self._held
            self._cut = None
            self._release.set()
            await asyncio.sleep(0.5)
