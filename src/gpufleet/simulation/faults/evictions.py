"""Faults of evictions: refused for ever, lost, of unknown outcome, half done, and victims that never end."""

from random import Random

from gpufleet.kube.transport import Request, Response, TransportError
from gpufleet.simulation.faults.interference import Fault, status
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.world import SchedulerProcess, World

NOT_NOW = "Cannot evict pod as it would violate the pod's disruption budget."


def is_eviction(request: Request) -> bool:
    """Whether a request evicts a pod, in earnest."""
    path, _, query = request.target.partition("?")
    return request.method == "POST" and path.endswith("/eviction") and "dryRun" not in query


class EvictionRefused(Fault):
    """The eviction of every other pod is answered 429 for ever, as by a budget that stays unseen."""

    name = "eviction-429"

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        path = request.target.partition("?")[0]
        # By the path and not by chance: what is refused once is refused every time.
        if not path.endswith("/eviction") or Random(path).random() < 0.5:
            return None
        self.acted += 1
        cause = {"reason": "DisruptionBudget", "message": "the budget needs 1 healthy pod and has 1"}
        return status(429, "TooManyRequests", NOT_NOW, causes=(cause,))


class EvictionUnknown(Fault):
    """An eviction works, and its answer is lost or says that it failed."""

    name = "eviction-unknown-applied"

    async def after_call(
        self, request: Request, response: Response, owner: SchedulerProcess | None
    ) -> Response:
        if not is_eviction(request) or not self.chance(0.5):
            return response
        if self.random.random() < 0.5:
            raise TransportError("connection reset by peer", reached=True)
        return status(504, "Timeout", "Timeout: request did not complete within the allotted timeout")


class EvictionLost(Fault):
    """An eviction does not work, and its answer is lost or leaves that open."""

    name = "eviction-unknown-lost"

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if not is_eviction(request) or not self.chance(0.5):
            return None
        if self.random.random() < 0.5:
            raise TransportError("connection reset by peer", reached=True)
        return status(500, "InternalError", "Internal error occurred: etcdserver: request timed out")


class KillWhileEvicting(Fault):
    """The scheduler is killed right after it has evicted one pod, with others still to go."""

    name = "kill-while-evicting"

    async def prepare(self, world: World) -> None:
        self._world = world

    async def after_call(
        self, request: Request, response: Response, owner: SchedulerProcess | None
    ) -> Response:
        if owner is not None and is_eviction(request) and owner.process.alive and self.chance(0.4):
            self._world.note(f"after {request.target}:")
            owner.kill()
        return response


class VictimNeverEnds(Fault):
    """Pods that were told to end do not, as long as the fault lasts."""

    name = "victim-never-ends"
    lasts_s = 120.0

    async def prepare(self, world: World) -> None:
        def lets_end(_: JsonObject) -> bool:
            self.acted += self.active
            return not self.active

        world.actors.lets_end = lets_end
