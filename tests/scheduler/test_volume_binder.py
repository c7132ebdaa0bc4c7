"""Claims are bound before their pod, by the rules of Kubernetes, whatever becomes of the writes.

A volume belongs to the claim that its ``claimRef`` names by uid, and to no other while that stands. A claim
that is made for its first consumer waits for the node in its annotation ``selected-node``; a provisioner that
cannot make it there removes the annotation. A claim is bound once it names its volume and the volume
controller said that it is done (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding).
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.objects.storage import PersistentVolumeClaim
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.volume_binder import WAIT_S, VolumeBinder, VolumeProblemError, VolumeTask
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import CLAIMS, VOLUMES
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from gpufleet.simulation.volume_actors import VolumeActors, claim, local_volume, storage_class
from tests.at_work import at_work
from tests.engine.effort import seeds
from tests.simulation.spoilt_way import Lost, refused, too_many

ADMIN = "system:masters"
NODE = NodeName("n")
POD = PodName("default", "p", PodUid("p"))
MERGE = "application/merge-patch+json"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STATIC = "static"
SPOILT: tuple[Response | Lost, ...] = (
    Lost.REQUEST,
    Lost.ANSWER,
    refused(409, "newer"),
    refused(500, "etcd"),
    refused(503, "busy"),
    too_many(1),
)


class Unreliable:
    """A way to the server on which writes are spoilt, each in the order of ``spoilt``; None passes."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.spoilt: list[Response | Lost | None] = []
        self.writes = 0
        self.reads = 0
        self.dies_at = 0
        self.dies_after = False
        self.is_dead = False
        self.before_write: Callable[[], None] = lambda: None

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass a request on, spoil it, or die of it."""
        if request.method == "GET" and not self.is_dead:
            self.reads += 1
            return await self.inner.call(request, timeout_s=timeout_s)
        self.writes += 1
        self.before_write()
        dies = self.is_dead or self.writes == self.dies_at
        self.is_dead = dies
        spoilt = self.spoilt.pop(0) if self.spoilt else None
        if isinstance(spoilt, Response):
            return spoilt
        arrives = spoilt is not Lost.REQUEST and (not dies or self.dies_after)
        answer = await self.inner.call(request, timeout_s=timeout_s) if arrives else None
        if dies:
            await asyncio.Event().wait()
        if answer is None or spoilt is Lost.ANSWER:
            raise TransportError("connection reset by peer", reached=True)
        return answer

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


class Case:
    """Claims of a pod, volumes, and the makers of volumes; the copy of claims is late by ``lag_s``."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.clock = VirtualClock(loop)
        self.chance = Random(seed)
        self.server = ApiServer(self.clock, Random(seed + 1))
        self.server.add(storage_class())
        self.server.add(storage_class(STATIC, "kubernetes.io/no-provisioner"))
        self.actors = VolumeActors(self.server, Random(seed + 2))
        self.way = Unreliable(SimulatedTransport(self.server, SCHEDULER_USER, Random(seed + 3)))
        self.lag_s = 0.0
        self.seen: dict[str, PersistentVolumeClaim] = {}

    def add(self, *, made: int = 0, static: int = 0) -> tuple[VolumeTask, ...]:
        """So many claims of each kind, with volumes for the static ones; what is to be done for them."""
        for number in range(made):
            self.server.add(claim(f"made-{number}", "default"))
        for number in range(static):
            self.server.add(claim(f"static-{number}", "default", STATIC))
            self.server.add(local_volume(f"disk-{number}", NODE, STATIC))
        return (
            *(VolumeTask(f"default/made-{number}") for number in range(made)),
            *(VolumeTask(f"default/static-{number}", f"disk-{number}") for number in range(static)),
        )

    def stored(self, kind: tuple[str, str], namespace: str, name: str) -> Any:
        """An object as the server has it."""
        return self.server.store.get(kind, (namespace, name))

    def claim_of(self, task: VolumeTask) -> Any:
        """The claim of a task."""
        return self.stored(CLAIMS, "default", task.claim.rpartition("/")[2])

    def patch(self, path: str, patch: object) -> None:
        """Another program's write."""
        request = Request("PATCH", path, msgspec.json.encode(patch), MERGE)
        assert self.server.answer(request, ADMIN).status == 200

    def find(self, _namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim as the watch has told of it."""
        return self.seen.get(name)

    async def watch(self) -> None:
        """The watch tells of the claims, late."""
        while True:
            self.seen = {
                name: msgspec.json.decode(msgspec.json.encode(found), type=PersistentVolumeClaim)
                for name in [f"{kind}-{number}" for kind in ("made", STATIC) for number in range(3)]
                if (found := self.stored(CLAIMS, "default", name)) is not None
            }
            await self.clock.sleep(0.05 + self.lag_s * self.chance.random())

    def binder(self, seed: int = 7) -> VolumeBinder:
        """A binder, of a new process each time."""
        return VolumeBinder(Client(self.way, self.clock, Random(seed)), self.find)

    async def outcome(self, tasks: tuple[VolumeTask, ...]) -> VolumeProblemError | None:
        """Prepare the claims once; the problem, if there is one."""
        try:
            await self.binder().prepare(POD, NODE, tasks)
        except VolumeProblemError as problem:
            return problem
        return None

    def is_bound(self, task: VolumeTask) -> bool:
        """Whether the server says that a claim has its volume, and that the volume is the claim's."""
        found = self.claim_of(task)
        name = found["spec"].get("volumeName", "")
        volume = self.stored(VOLUMES, "", name)
        bound = "pv.kubernetes.io/bind-completed" in (found["metadata"].get("annotations") or {})
        its_own = volume is not None and volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        return bound and its_own and (not task.volume or name == task.volume)


def in_case(story: Callable[[Case], Awaitable[None]], seed: int = 1) -> None:
    """Run a story in virtual time."""

    async def work(loop: VirtualLoop) -> None:
        case = Case(loop, seed)
        async with at_work(case.actors.run(), case.watch()):
            await story(case)

    run(work)


@pytest.mark.parametrize("seed", seeds(60))
def test_claims_are_bound_when_it_returns_whatever_became_of_its_writes(seed: int) -> None:
    """It is asked again for as long as it says that a write failed, as the engine would after a pause."""

    async def story(case: Case) -> None:
        tasks = case.add(made=case.chance.randint(0, 3), static=case.chance.randint(0, 3))
        case.lag_s = case.chance.choice((0.0, 2.0))
        case.way.spoilt = [
            case.chance.choice((None, *SPOILT)) if case.chance.random() < 0.6 else None for _ in range(8)
        ]
        for _ in range(12):
            problem = await case.outcome(tasks)
            if problem is None:
                break
            assert problem.refused_claim == "", "no provisioner turned the node down"
        assert problem is None
        assert all(map(case.is_bound, tasks))

    in_case(story, seed)


@pytest.mark.parametrize("kind", ["made", "static"])
def test_a_write_that_arrived_counts_though_its_answer_is_lost(kind: str) -> None:
    async def story(case: Case) -> None:
        (task,) = case.add(**{kind: 1})
        case.way.spoilt = [Lost.ANSWER]
        assert await case.outcome((task,)) is None
        assert case.is_bound(task)
        assert case.way.writes == 1

    in_case(story)


def test_a_rival_that_takes_the_volume_in_between_keeps_it() -> None:
    """The version of the volume as it was read makes the later of two writes fail."""

    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        case.server.add(claim("other", "default", STATIC))
        other = case.stored(CLAIMS, "default", "other")["metadata"]["uid"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "other", "uid": other}
        given = {"spec": {"claimRef": reference}}
        case.way.before_write = lambda: case.patch("/api/v1/persistentvolumes/disk-0", given)
        assert await case.outcome((task,)) is not None
        assert case.stored(VOLUMES, "", "disk-0")["spec"]["claimRef"]["uid"] == other

    in_case(story)


def test_a_claim_that_only_names_its_volume_is_not_bound_yet() -> None:
    """Its owner may name a volume; the volume controller says with bind-completed that it is done."""

    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        case.actors.server = ApiServer(case.clock, Random(9))
        path = "/api/v1/namespaces/default/persistentvolumeclaims/static-0"
        case.patch(path, {"spec": {"volumeName": "disk-0"}})
        asked = asyncio.create_task(case.outcome((task,)))
        await case.clock.sleep(30)
        assert not asked.done()
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        case.patch(path, done)
        await case.clock.sleep(5)
        assert asked.done()
        assert asked.result() is None

    in_case(story)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 5))
def test_a_process_that_dies_at_any_write_leaves_what_the_next_one_completes(
    dies_at: int, after: bool
) -> None:
    async def story(case: Case) -> None:
        tasks = case.add(made=2, static=2)
        case.way.dies_at, case.way.dies_after = dies_at, after
        first = asyncio.create_task(case.binder().prepare(POD, NODE, tasks))
        await case.clock.sleep(30)
        assert not first.done()
        first.cancel()
        inner = SimulatedTransport(case.server, SCHEDULER_USER, Random(5))
        case.way = Unreliable(inner)
        assert await case.outcome(tasks) is None
        assert all(map(case.is_bound, tasks))

    in_case(story)


@pytest.mark.parametrize("spoilt", [None, *SPOILT], ids=str)
def test_a_volume_of_another_claim_is_never_taken(spoilt: Response | Lost | None) -> None:
    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        case.server.add(claim("other", "default", STATIC))
        other = case.stored(CLAIMS, "default", "other")["metadata"]["uid"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "other", "uid": other}
        case.patch("/api/v1/persistentvolumes/disk-0", {"spec": {"claimRef": reference}})
        case.way.spoilt = [spoilt]
        problem = await case.outcome((task,))
        assert problem is not None
        assert "disk-0" in str(problem)
        assert case.stored(VOLUMES, "", "disk-0")["spec"]["claimRef"]["uid"] == other
        assert case.way.writes == 0

    in_case(story)


def test_a_claim_made_anew_under_its_name_does_not_get_the_volume_of_the_former_one() -> None:
    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "static-0",
            "uid": "old",
        }
        case.patch("/api/v1/persistentvolumes/disk-0", {"spec": {"claimRef": reference}})
        problem = await case.outcome((task,))
        assert problem is not None
        assert case.stored(VOLUMES, "", "disk-0")["spec"]["claimRef"]["uid"] == "old"

    in_case(story)


def test_a_volume_that_an_administrator_keeps_for_the_claim_by_name_is_given_to_it() -> None:
    """A claimRef without a uid reserves a volume (Kubernetes, "Reserving a PersistentVolume")."""

    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        kept = {"spec": {"claimRef": {"namespace": "default", "name": "static-0"}}}
        case.patch("/api/v1/persistentvolumes/disk-0", kept)
        assert await case.outcome((task,)) is None
        assert case.is_bound(task)

    in_case(story)


@pytest.mark.parametrize("lag_s", [0.0, 5.0])
def test_a_node_that_the_provisioner_turns_down_is_told_with_its_claim(lag_s: float) -> None:
    async def story(case: Case) -> None:
        case.lag_s = lag_s
        tasks = case.add(made=2)
        turned_down = "made-1"
        case.actors.refuses = lambda found, _node: found["metadata"]["name"] == turned_down
        problem = await case.outcome(tasks)
        assert problem is not None
        assert problem.refused_claim == "default/made-1"
        assert f"on node {NODE}" in str(problem)

    in_case(story)


def test_a_claim_that_another_scheduler_has_made_elsewhere_is_no_refusal_of_the_node() -> None:
    async def story(case: Case) -> None:
        (task,) = case.add(made=1)
        case.actors.refuses = lambda _claim, _node: False
        asked = asyncio.create_task(case.outcome((task,)))
        await case.clock.sleep(0.02)
        path = "/api/v1/namespaces/default/persistentvolumeclaims/made-0"
        case.patch(path, {"metadata": {"annotations": {SELECTED_NODE: "elsewhere"}}})
        problem = await asked
        assert problem is not None
        assert (problem.refused_claim, "elsewhere" in str(problem)) == ("", True)

    in_case(story)


def test_a_claim_that_never_comes_is_given_up_after_ten_minutes_as_by_kube_scheduler() -> None:
    """bindTimeoutSeconds is 600 by default (VolumeBindingArgs)."""

    async def story(case: Case) -> None:
        (task,) = case.add(static=1)
        case.server.add(claim("static-1", "default", STATIC))
        case.server.add(storage_class("none", "nobody.example.com"))
        case.server.add(claim("made-0", "default", "none"))
        case.actors.server = ApiServer(case.clock, Random(9))
        began_s = case.clock.monotonic_s()
        problem = await case.outcome((VolumeTask("default/made-0"), task))
        assert problem is not None
        assert "was not bound" in str(problem)
        assert 600.0 == WAIT_S <= case.clock.monotonic_s() - began_s < WAIT_S + 5

    in_case(story)


def test_a_claim_that_goes_away_is_a_problem_at_once() -> None:
    async def story(case: Case) -> None:
        (task,) = case.add(made=1)
        case.actors.server = ApiServer(case.clock, Random(9))
        asked = asyncio.create_task(case.outcome((task,)))
        await case.clock.sleep(5)
        path = "/api/v1/namespaces/default/persistentvolumeclaims/made-0"
        assert case.server.answer(Request("DELETE", path), ADMIN).status == 200
        case.patch(path, {"metadata": {"finalizers": None}})
        await case.clock.sleep(5)
        assert asked.done()
        assert "is gone" in str(asked.result())

    in_case(story)
