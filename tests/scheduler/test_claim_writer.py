"""A claim is written in Kubernetes' order, whatever becomes of the writes: finalizer, then devices and pod.

The order and the entry of a pod in ``reservedFor`` are those of kube-scheduler's plugin DynamicResources.
"""

from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.objects.resource_claims import (
    DeviceAllocation,
    ResourceClaimObject,
    WrittenAllocation,
    WrittenResult,
)
from gpufleet.kube.transport import Request, Response
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.claim_writer import ClaimProblemError, ClaimTask, ClaimWriter
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.scheduler.test_volume_binder import Unreliable
from tests.simulation.spoilt_way import Lost, refused

ADMIN = "system:masters"
MERGE = "application/merge-patch+json"
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
POD = PodName("default", "p", PodUid("p-uid"))
OTHER = PodName("default", "q", PodUid("q-uid"))
Object = dict[str, Any]


class Case:
    """A claim that waits for devices, and a writer that knows it by then and whose requests may be spoilt."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        exactly = {"deviceClassName": "gpu"}
        spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
        self.server.add(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": "default", "finalizers": ["example.com/kept"]},
                "spec": spec,
            }
        )
        self.way = Unreliable(SimulatedTransport(self.server, ADMIN, Random(2)))
        seen = msgspec.convert(self.claim(), ResourceClaimObject)
        # What the watch told stays as it was before any write: whatever a test does, the copy is old.
        self.writer = ClaimWriter(
            Client(self.way, self.clock, Random(3)), lambda _namespace, _name: seen, may_write=lambda: True
        )

    def claim(self) -> Object:
        """The claim as the server has it."""
        found: Object = msgspec.json.decode(self.server.answer(Request("GET", PATH), ADMIN).body)
        return found

    def task(self, device: str | None = "d0") -> ClaimTask:
        """The claim is to have a device; None where it has one."""
        return ClaimTask("c", self.claim()["metadata"]["uid"], None if device is None else devices(device))

    def patch(self, part: str, patch: Object) -> None:
        """Another program's write."""
        request = Request("PATCH", PATH + part, msgspec.json.encode(patch), MERGE)
        assert self.server.answer(request, ADMIN).status == 200

    def is_written_for(self, *pods: str) -> bool:
        """Whether the claim has its finalizers, its device, and an entry for each of these pods."""
        found = self.claim()
        results = found["status"]["allocation"]["devices"]["results"]
        return (
            found["metadata"]["finalizers"]
            == ["example.com/kept", "resource.kubernetes.io/delete-protection"]
            and [one["device"] for one in results] == ["d0"]
            and [(one["resource"], one["uid"]) for one in found["status"]["reservedFor"]]
            == [("pods", f"{pod}-uid") for pod in pods]
        )


def devices(name: str) -> WrittenAllocation:
    result = WrittenResult(request="gpus", driver="gpu.example.com", pool="n", device=name)
    return WrittenAllocation(DeviceAllocation((result,)))


def test_the_finalizer_comes_first_then_devices_and_pod_in_one_write() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        seen: list[Object] = []
        case.way.before_write = lambda: seen.append(case.claim())
        await case.writer.prepare(POD, (case.task(),))
        assert len(seen) == 2
        assert "resource.kubernetes.io/delete-protection" in seen[1]["metadata"]["finalizers"]
        assert not seen[1].get("status")
        assert case.is_written_for("p")

    run(story)


def test_a_claim_that_the_watch_told_is_written_without_being_read() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        await case.writer.prepare(POD, (case.task(),))
        assert (case.way.reads, case.way.writes) == (0, 2)
        assert case.is_written_for("p")

    run(story)


def test_a_claim_that_changed_since_the_watch_told_it_is_read_before_it_is_written() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        case.patch("", {"metadata": {"labels": {"team": "a"}}})
        await case.writer.prepare(POD, (case.task(),))
        assert (case.way.reads, case.way.writes) == (1, 3)
        assert case.is_written_for("p")

    run(story)


def test_a_second_pod_of_a_claim_only_adds_its_entry() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        await case.writer.prepare(POD, (case.task(),))
        await case.writer.prepare(OTHER, (case.task(None),))
        assert case.is_written_for("p", "q")
        assert case.way.writes == 3

    run(story)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_the_next_writer_goes_on_where_one_died(number: int, after: bool) -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        case.way.dies_at, case.way.dies_after = number, after
        async with at_work(case.writer.prepare(POD, (case.task(),))):
            await case.clock.sleep(1.0)
        case.way.dies_at, case.way.is_dead = 0, False
        await case.writer.prepare(POD, (case.task(),))
        assert case.is_written_for("p")

    run(story)


@pytest.mark.parametrize("spoilt", [Lost.REQUEST, Lost.ANSWER, refused(409, "newer"), refused(500, "etcd")])
@pytest.mark.parametrize("number", [0, 1])
def test_a_write_that_fails_or_is_lost_is_made_once(spoilt: Response | Lost, number: int) -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        case.way.spoilt = [None] * number + [spoilt]
        await case.writer.prepare(POD, (case.task(),))
        assert case.is_written_for("p")

    run(story)


def test_devices_that_another_scheduler_gave_meanwhile_are_left_as_they_are() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        result = {"request": "gpus", "driver": "gpu.example.com", "pool": "n", "device": "d1"}
        given = {"status": {"allocation": {"devices": {"results": [result]}}}}

        def meanwhile() -> None:
            if case.way.writes == 2:
                case.patch("/status", given)

        case.way.before_write = meanwhile
        with pytest.raises(ClaimProblemError, match="claim c got other devices"):
            await case.writer.prepare(POD, (case.task(),))
        assert case.claim()["status"] == given["status"]

    run(story)


def test_a_claim_that_is_made_anew_or_has_no_devices_any_more_gets_none() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        with pytest.raises(ClaimProblemError, match="claim c was made anew"):
            await case.writer.prepare(POD, (ClaimTask("c", "earlier", devices("d0")),))
        with pytest.raises(ClaimProblemError, match="claim c gave back its devices"):
            await case.writer.prepare(POD, (case.task(None),))
        assert case.way.writes == 0

    run(story)


def test_a_claim_that_goes_gets_no_devices() -> None:
    async def story(loop: VirtualLoop) -> None:
        case = Case(loop)
        task = case.task()
        assert case.server.answer(Request("DELETE", PATH), ADMIN).status == 200
        with pytest.raises(ClaimProblemError, match="claim c is being deleted"):
            await case.writer.prepare(POD, (task,))
        found = case.claim()
        assert found["metadata"]["finalizers"] == ["example.com/kept"]
        assert not found.get("status")

    run(story)
