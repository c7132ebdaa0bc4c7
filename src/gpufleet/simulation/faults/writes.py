"""Faults of writes: refused for now, answered wrongly, overtaken by another writer."""

import abc

import msgspec

from gpufleet.kube.transport import Request, Response, TransportError
from gpufleet.simulation.cluster_recipe import USER
from gpufleet.simulation.faults.interference import Fault, is_binding, is_write, status
from gpufleet.simulation.history import PODS
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.world import SchedulerProcess, World

ELSEWHERE = "elsewhere"


class TooManyRequests(Fault):
    """The server is overloaded: 429 with Retry-After, mostly for writes."""

    name = "too-many-requests"

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if self.chance(0.6 if request.method != "GET" else 0.1):
            words = "the server has received too many requests and has asked us to try again later"
            return status(429, "TooManyRequests", words, self.random.randint(1, 3))
        return None


class BindUnknownApplied(Fault):
    """A Binding works, and its answer is lost or says that it failed."""

    name = "bind-unknown-applied"

    async def after_call(
        self, request: Request, response: Response, owner: SchedulerProcess | None
    ) -> Response:
        if not is_binding(request) or not self.chance(0.5):
            return response
        if self.random.random() < 0.5:
            raise TransportError("connection reset by peer", reached=True)
        return status(504, "Timeout", "Timeout: request did not complete within the allotted timeout")


class BindUnknownLost(Fault):
    """A Binding does not work, and its answer is lost or leaves that open."""

    name = "bind-unknown-lost"

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if not is_binding(request) or not self.chance(0.5):
            return None
        if self.random.random() < 0.5:
            raise TransportError("connection reset by peer", reached=True)
        return status(500, "InternalError", "Internal error occurred: etcdserver: request timed out")


class _Overtaking(Fault, abc.ABC):
    """Something that happens to a pod just before its Binding arrives."""

    async def prepare(self, world: World) -> None:
        self._world = world

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if is_binding(request):
            parts = request.target.split("/")
            pod = self._world.server.store.get(PODS, (parts[4], parts[6]))
            if pod is not None and not pod["spec"].get("nodeName") and self.chance(0.3):
                self.overtake(pod, "/".join(parts[:7]))
        return None

    @abc.abstractmethod
    def overtake(self, pod: JsonObject, path: str) -> None:
        """Change the pod before the scheduler's write arrives."""


class BindConflict(_Overtaking):
    """Another scheduler takes the pod first, to a node of its own."""

    name = "bind-conflict"

    async def prepare(self, world: World) -> None:
        await super().prepare(world)
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": ELSEWHERE}}
        # Unschedulable: our own scheduler must not place pods there.
        world.server.add({**node, "spec": {"unschedulable": True}, "status": {"allocatable": amounts}})

    def overtake(self, pod: JsonObject, path: str) -> None:
        binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"name": ELSEWHERE}}
        request = Request("POST", f"{path}/binding", msgspec.json.encode(binding))
        self._world.server.answer(request, "system:kube-scheduler")
        self._world.note(f"another scheduler binds {pod['metadata']['name']}")


class PodChanged(_Overtaking):
    """The pod is deleted, edited, or deleted and made anew under its name."""

    name = "pod-changed-before-bind"

    def overtake(self, pod: JsonObject, path: str) -> None:
        way = self.random.choice(("deleted", "edited", "made anew"))
        self._world.note(f"{pod['metadata']['name']} is {way} before its Binding arrives")
        actors = self._world.actors
        if way == "edited":
            actors.ask(USER, "PATCH", path, {"metadata": {"labels": {"edited": "yes"}}})
            return
        actors.ask(USER, "DELETE", path)
        if way == "made anew" and not pod["metadata"].get("ownerReferences"):
            make_anew(self._world, pod)


def make_anew(world: World, pod: JsonObject) -> None:
    """Another pod under the same name."""
    kept = {
        key: pod["metadata"][key]
        for key in ("name", "namespace", "annotations", "labels")
        if key in pod["metadata"]
    }
    kept["annotations"] = {
        key: value for key, value in kept.get("annotations", {}).items() if key != "gpufleet.io/grant"
    }
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    made = world.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}, USER)
    if pod["metadata"]["uid"] in world.poisoned:
        world.poisoned.add(made["metadata"]["uid"])


class WritesFail(Fault):
    """Reads work, writes fail: the store is full, or has lost its quorum."""

    name = "reads-work-writes-fail"
    blinds_s = 30.0

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if request.method != "GET" and self.chance(1.0):
            return status(500, "InternalError", "etcdserver: mvcc: database space exceeded")
        return None


class KillAfterWrite(Fault):
    """The scheduler is killed right after its k-th write, and again after its next k-th."""

    name = "kill-after-write-k"

    async def prepare(self, world: World) -> None:
        self._world = world
        self._left = self.random.randint(1, 12)

    async def after_call(
        self, request: Request, response: Response, owner: SchedulerProcess | None
    ) -> Response:
        # Renewals of the Lease are by far the most writes, and would leave hardly a death to the others.
        if owner is None or not is_write(request) or "/leases" in request.target:
            return response
        self._left -= 1
        if self._left == 0 and owner.process.alive:
            self._left = self.random.randint(1, 12)
            self.acted += 1
            self._world.note(f"after {request.method} {request.target}:")
            owner.kill()
        return response


class LeaseUnreachable(Fault):
    """Two leaders: the leader cannot renew its Lease and goes on, on a clock that goes wrong."""

    name = "two-leaders"
    blinds_s = 0.0
    schedulers = 2

    async def drive(self, world: World) -> None:
        for one in world.processes:
            one.clock.offset_s = self.random.uniform(-30.0, 30.0)

    async def prepare(self, world: World) -> None:
        self._world = world

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if owner is None or "/leases" not in request.target or owner is not self._world.leader():
            return None
        if self.chance(0.9):
            raise TransportError("connection refused", reached=False)
        return None
