"""Carrying out binds: one write each, repeated only where that cannot bind a pod twice.

A Binding carries the pod's uid, so it cannot hit a namesake, and the server refuses a second one
for a pod that has a node. What is not known is read back. While the outcome is open the room stays
booked and only the very same Binding is sent again: a late arrival of the first then does no harm.
After ``GIVE_UP_S``, which is longer than a server works on a request, the room is given back.

A pod with volumes to be bound, or with resource claims, waits for them beside the workers, so that no other
pod waits with it. Volumes come first: they may take minutes, in which no device should be held in vain.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from gpufleet.cluster.engine_events import BindEnded
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.fencing import FENCED
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import NotFound, ServerFailure, StatusError, TooManyRequests
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.bind_outcome import LEAVES_CLAIMS, Outcome
from gpufleet.scheduler.claim_binder import ClaimBinder
from gpufleet.scheduler.claim_writer import ClaimProblemError, ClaimTask
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.volume_binder import VolumeBinder, VolumeProblemError, VolumeTask

LOG = logging.getLogger(__name__)
GIVE_UP_S = 90.0
"""Longer than an API server works on a request (60 seconds): nothing of ours can land later."""

GUARDED = frozenset({keys.GRANT, keys.MOVED})
"""What the scheduler alone can write: a pod that has it was bound by us."""

# Pauses before a Binding is sent again; they double, and a pod waits for the outcome.
PAUSE_FIRST_S = 0.2
PAUSE_MOST_S = 5.0


class BindTask(msgspec.Struct, frozen=True):
    """A pod, the place decided for it, and the annotations that travel with the Binding."""

    pod: PodName
    node: NodeName
    devices: tuple[DeviceId, ...] = ()
    annotations: dict[str, str] = {}
    volumes: tuple[VolumeTask, ...] = ()
    claims: tuple[ClaimTask, ...] = ()


class BindResult(msgspec.Struct, frozen=True):
    """What came of a task, with the server's words where it refused.

    ``refused_claim`` is the claim for which no volume could be made on the task's node, "" for none.
    """

    task: BindTask
    outcome: Outcome
    words: str = ""
    refused_claim: str = ""

    def ended(self) -> BindEnded:
        """The result as the events of the engine need it."""
        bound = self.outcome is Outcome.BOUND
        return BindEnded(self.task.pod.uid, self.task.node, self.task.devices, bound, self.refused_claim)


class _PodAsBound(msgspec.Struct):
    """What is read back of a pod."""

    class Meta(msgspec.Struct):
        uid: str = ""
        annotations: dict[str, str] = {}

    class Spec(msgspec.Struct, rename="camel"):
        node_name: str = ""

    metadata: Meta
    spec: Spec


_READ_BACK = msgspec.json.Decoder(_PodAsBound)


class Binder:
    """Workers that carry out binds until they are cancelled; results go to ``tell``."""

    def __init__(
        self,
        client: Client,
        volumes: VolumeBinder,
        claims: ClaimBinder,
        metrics: Metrics,
        tell: Callable[[BindResult], None],
        *,
        at_once: int,
        may_write: Callable[[], bool],
    ) -> None:
        self.client = client
        self.may_write = may_write
        self.volumes = volumes
        self.claims = claims
        self.metrics = metrics
        self.tell = tell
        self.at_once = at_once
        self._tasks: asyncio.Queue[BindTask] = asyncio.Queue()
        # A queue of its own: a volume takes up to minutes, and no worker may stand still for one.
        self._to_prepare: asyncio.Queue[BindTask] = asyncio.Queue()
        self._failed: asyncio.Queue[BindResult] = asyncio.Queue()
        self._busy = 0

    @property
    def backlog(self) -> int:
        """Binds not finished yet, those that wait for volumes or claims left out."""
        return self._tasks.qsize() + self._busy

    def submit(self, task: BindTask) -> None:
        """Have a bind carried out, after those submitted before."""
        (self._to_prepare if task.volumes or task.claims else self._tasks).put_nowait(task)

    async def run(self) -> None:
        """Carry out binds, several at a time."""
        async with asyncio.TaskGroup() as group:
            # The number of workers is the limit: each has one request under way.
            for _ in range(self.at_once):
                group.create_task(self._work())
            group.create_task(self._undo_failed(group))
            while True:
                group.create_task(self._prepare(await self._to_prepare.get()))

    async def _prepare(self, task: BindTask) -> None:
        """Have the volumes of a pod bound and its claims written, then the pod bound."""
        try:
            if task.volumes:
                await self.volumes.prepare(task.pod, task.node, task.volumes)
            if task.claims:
                await self.claims.prepare(task.pod, task.claims)
        except VolumeProblemError as problem:
            self._end(BindResult(task, Outcome.NO_VOLUME, str(problem), problem.refused_claim))
        except ClaimProblemError as problem:
            await self._undo(BindResult(task, Outcome.NO_DEVICES, str(problem)))
        else:
            # Only the Binding counts against the limit; preparing a volume asks the server now and then.
            self._tasks.put_nowait(task)

    async def _undo_failed(self, group: asyncio.TaskGroup) -> None:
        """Give claims back beside the workers: a server that cannot be reached is asked again and again."""
        while True:
            group.create_task(self._undo(await self._failed.get()))

    async def _undo(self, result: BindResult) -> None:
        # The engine hears of it afterwards: until then the devices are not given to another claim.
        await self.claims.give_back(result.task.pod, result.task.claims)
        self._end(result)

    async def _work(self) -> None:
        while True:
            task = await self._tasks.get()
            self._busy += 1
            began_s = self.client.clock.monotonic_s()
            try:
                result = await self._carry_out(task)
            # Also when the work is cancelled, so that the backlog stays true.
            finally:
                self._busy -= 1
            self.metrics.bind_seconds.observe(self.client.clock.monotonic_s() - began_s)
            if result.outcome in LEAVES_CLAIMS and task.claims:
                self._failed.put_nowait(result)
            else:
                self._end(result)

    def _end(self, result: BindResult) -> None:
        self.metrics.binds.labels(result.outcome.value).inc()
        if result.outcome is not Outcome.BOUND:
            pod, outcome = str(result.task.pod), result.outcome.value
            said = {"pod": pod, "outcome": outcome, "answer": result.words}
            LOG.warning("a bind did not happen", extra=said)
        self.tell(result)

    async def _carry_out(self, task: BindTask) -> BindResult:
        give_up_at_s = self.client.clock.monotonic_s() + GIVE_UP_S
        pause_s = PAUSE_FIRST_S
        while True:
            result, words = await self._try(task)
            if result is not None:
                return BindResult(task, result, words)
            # Before the pause and not after it: waiting for a deadline that will have passed helps no pod.
            if self.client.clock.monotonic_s() + pause_s > give_up_at_s:
                return BindResult(task, Outcome.GAVE_UP, words)
            # Spread out, so that pods that failed together are not all sent again at one moment.
            await self.client.clock.sleep(pause_s * (0.5 + self.client.jitter.random()))
            pause_s = min(PAUSE_MOST_S, 2 * pause_s)

    async def _try(self, task: BindTask) -> tuple[Outcome | None, str]:
        """Send the Binding once; None where it is worth sending again."""
        # Checked before each request, and not once a task: a task is tried for up to ``GIVE_UP_S``.
        if not self.may_write():
            raise LeadershipLost("leadership is no longer certain, so nothing more is bound")
        try:
            await self.client.bind(
                task.pod.name,
                namespace=task.pod.namespace,
                uid=task.pod.uid,
                node=task.node,
                annotations=task.annotations,
            )
        # The pod itself says whether the Binding arrived; sending it again could be answered with a conflict.
        except OutcomeUnknown as unknown:
            return await self._read_back(task, str(unknown))
        except NotFound as answer:
            return Outcome.GONE, str(answer)
        # Both are about the server and not about this pod.
        except (TooManyRequests, ServerFailure) as answer:
            return None, str(answer)
        except StatusError as answer:
            # A conflict may come from our own Binding of an earlier try, whose answer was lost.
            known, _ = await self._read_back(task, str(answer))
            return known or refusal(answer), str(answer)
        except KubeError as problem:
            return None, str(problem)
        return Outcome.BOUND, ""

    async def _read_back(self, task: BindTask, words: str) -> tuple[Outcome | None, str]:
        """What the server has of the pod now; None where it has no node yet or nothing is known."""
        try:
            body = await self.client.get(PODS, task.pod.name, namespace=task.pod.namespace)
            pod = _READ_BACK.decode(body)
        except NotFound:
            return Outcome.GONE, words
        except (KubeError, msgspec.DecodeError):
            return None, words
        # Another pod has the name by now; what it has was not decided here.
        if pod.metadata.uid != task.pod.uid:
            return Outcome.GONE, words
        # The Binding may still be under way, so the pod is not given up: only that Binding is sent again.
        if not pod.spec.node_name:
            return None, words
        # The same node is not enough: another scheduler may have bound it there, without our grant.
        # People may have changed other annotations since.
        ours = pod.spec.node_name == task.node and all(
            pod.metadata.annotations.get(key) == value
            for key, value in task.annotations.items()
            if key in GUARDED
        )
        return (Outcome.BOUND if ours else Outcome.TAKEN), words


def refusal(answer: StatusError) -> Outcome:
    """What kind of no a definite answer is."""
    return Outcome.FENCED if FENCED in answer.message else Outcome.REFUSED
