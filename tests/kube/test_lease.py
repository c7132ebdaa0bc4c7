"""Who holds a Lease, for how long, and what another needs to see before it takes over."""

import asyncio
import json
import random
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.lease import LeadershipLost, Lease, micro_time
from gpufleet.kube.transport import Request, Response
from tests.kube.scripted_transport import BROKEN, ScriptedStream, answer, refusal
from tests.kube.virtual_time import run_virtually

NOTHING, LOSE_REQUEST, LOSE_ANSWER, HANG = range(4)


class LeaseServer:
    """One Lease as an API server keeps it; ``faults`` befall the next requests."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.faults: deque[int] = deque()
        self.down = False

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """GET, POST and PATCH (a merge) of the one Lease."""
        await asyncio.sleep(0.01)
        fault = self.faults.popleft() if self.faults else NOTHING
        if self.down or fault == HANG:
            await asyncio.sleep(timeout_s)
            raise BROKEN
        if fault == LOSE_REQUEST:
            raise BROKEN
        response = self._do(request)
        if fault == LOSE_ANSWER:
            raise TransportError("the answer was lost", reached=True)
        return response

    def _do(self, request: Request) -> Response:
        if request.method == "POST":
            if self.lease is not None:
                return refusal(409, "AlreadyExists")
            assert request.target == "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
            return self._store(json.loads(request.body))
        if self.lease is None:
            return refusal(404, "NotFound")
        if request.method == "PATCH":
            body = json.loads(request.body)
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return refusal(409, "Conflict")
            return self._store({"metadata": {}, "spec": self.lease["spec"] | body["spec"]})
        return answer(self.lease)

    def _store(self, lease: dict[str, Any]) -> Response:
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease
        return answer(lease)

    @property
    def spec(self) -> dict[str, Any]:
        """What the Lease says."""
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def open(self, request: Request, *, timeout_s: float) -> ScriptedStream:
        """A watch: what is tested here opens none, so one that is opened fails the test."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


class SkewedClock:
    """A machine whose wall clock is wrong."""

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        self._skew = skew

    def monotonic_s(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """A wall time that has nothing to do with anybody else's."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic_s()) + self._skew

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_s)


def candidate(server: LeaseServer, name: str, skew_h: float = 0.0) -> Lease:
    client = Client(server, SkewedClock(timedelta(hours=skew_h)), random.Random(name))
    return Lease(client, "leader", namespace="ns", identity=name)


def test_first_candidate_creates_the_lease_with_epoch_one() -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        assert await lease.acquire() == 1
        assert lease.holds()
        assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == ("a", 1)
        assert server.spec["leaseDurationSeconds"] == 15
        assert await candidate(server, "b").try_acquire() is None

    run_virtually(main())


def test_micro_time_has_six_digits_even_when_they_are_zero() -> None:
    assert micro_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"


@pytest.mark.parametrize("skew_h", [-1000.0, 0.0, 1000.0])
def test_lease_that_is_renewed_is_never_taken_whatever_the_clocks_say(skew_h: float) -> None:
    async def main() -> None:
        server = LeaseServer()
        holder, other = candidate(server, "a"), candidate(server, "b", skew_h)
        await holder.acquire()
        keeping = asyncio.create_task(holder.keep())
        waiting = asyncio.create_task(other.acquire())
        await asyncio.sleep(300.0)
        assert holder.holds()
        assert not waiting.done()
        keeping.cancel()
        waiting.cancel()
        await asyncio.gather(keeping, waiting, return_exceptions=True)

    run_virtually(main())


@pytest.mark.parametrize("skew_h", [-1000.0, 0.0, 1000.0])
def test_silent_holder_stops_before_another_takes_over(skew_h: float) -> None:
    async def main() -> None:
        server = LeaseServer()
        holder, other = candidate(server, "a"), candidate(server, "b", skew_h)
        await holder.acquire()
        waiting = asyncio.create_task(other.acquire())
        while not waiting.done():
            await asyncio.sleep(0.1)
            assert not (holder.holds() and other.holds())
        assert await waiting == 2
        assert other.holds()
        assert server.spec["holderIdentity"] == "b"

    run_virtually(main())


def test_released_lease_is_free_at_once_under_a_new_epoch() -> None:
    async def main() -> None:
        server = LeaseServer()
        holder, other = candidate(server, "a"), candidate(server, "b")
        await holder.acquire()
        assert await other.try_acquire() is None
        await holder.release()
        assert not holder.holds()
        assert await other.try_acquire() == 2
        await holder.release()
        assert server.spec["holderIdentity"] == "b"

    run_virtually(main())


def test_epoch_is_never_below_one_that_is_in_use() -> None:
    async def main() -> None:
        server = LeaseServer()
        assert await candidate(server, "a").acquire(least_epoch=8) == 8
        server.lease = None
        assert await candidate(server, "b").acquire(least_epoch=9) == 9
        await asyncio.sleep(1.0)

    run_virtually(main())


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER])
def test_acquisition_of_unknown_outcome_is_read_back(fault: int) -> None:
    async def main() -> None:
        server = LeaseServer()
        server.faults.extend([NOTHING, fault])
        lease = candidate(server, "a")
        assert await lease.acquire() == 1
        assert lease.holds()
        server.faults.extend([NOTHING, fault])
        await lease.release()
        other = candidate(server, "b")
        assert await other.acquire() == 2

    run_virtually(main())


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_ANSWER])
def test_renewal_of_unknown_outcome_keeps_the_hold(fault: int) -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        await lease.acquire()
        server.faults.extend([fault] * 3)
        keeping = asyncio.create_task(lease.keep())
        await asyncio.sleep(60.0)
        assert lease.holds()
        assert lease.epoch == 1
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    run_virtually(main())


def test_change_by_somebody_else_does_not_end_the_hold() -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        await lease.acquire()
        assert server.lease is not None
        server._store(dict(server.lease, metadata={"labels": {"x": "y"}}))
        keeping = asyncio.create_task(lease.keep())
        await asyncio.sleep(60.0)
        assert lease.holds()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    run_virtually(main())


def test_holder_that_cannot_renew_says_so_in_time() -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        await lease.acquire()
        server.down = True
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(LeadershipLost, match="10 s"):
            await lease.keep()
        assert asyncio.get_running_loop().time() - began_s <= 10.0
        assert lease.epoch is None

    run_virtually(main())


@pytest.mark.parametrize("theft", [{"holderIdentity": "b"}, {"leaseTransitions": 7}])
def test_holder_whose_lease_is_anothers_says_so(theft: dict[str, Any]) -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        await lease.acquire()
        server._store({"metadata": {}, "spec": server.spec | theft})
        with pytest.raises(LeadershipLost, match="held by"):
            await lease.keep()
        assert not lease.holds()

    run_virtually(main())


def test_process_that_was_stopped_knows_at_once_that_its_hold_is_over() -> None:
    async def main() -> None:
        server = LeaseServer()
        lease = candidate(server, "a")
        await lease.acquire()
        loop = asyncio.get_running_loop()
        keeping = asyncio.create_task(lease.keep())
        await asyncio.sleep(0.0)
        loop.virtual_s += 30.0  # type: ignore[attr-defined]
        assert not lease.holds()
        written = server.version
        with pytest.raises(LeadershipLost, match="did not run"):
            await keeping
        assert server.version == written

    run_virtually(main())


def test_many_candidates_and_a_bad_server_never_make_two_leaders() -> None:
    async def lead(lease: Lease, led: list[int], rng: random.Random) -> None:
        while True:
            led.append(await lease.acquire())
            try:
                async with asyncio.timeout(rng.uniform(5.0, 60.0)):
                    await lease.keep()
            except LeadershipLost:
                continue
            except TimeoutError:
                if rng.random() < 0.5:
                    # It stops without a word, as a process that was killed, and starts as another.
                    await asyncio.sleep(rng.uniform(0.0, 40.0))
                else:
                    await asyncio.wait({asyncio.ensure_future(lease.release())})

    async def main(seed: int) -> None:
        server, rng = LeaseServer(), random.Random(seed)
        leases = [candidate(server, name, rng.uniform(-9, 9)) for name in "abcd"]
        led: list[int] = []
        tasks = [asyncio.create_task(lead(lease, led, rng)) for lease in leases]
        for _ in range(3000):
            await asyncio.sleep(0.1)
            assert sum(lease.holds() for lease in leases) <= 1
            if rng.random() < 0.02:
                server.faults.append(rng.choice([LOSE_REQUEST, LOSE_ANSWER, HANG]))
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError)
        assert len(led) >= 3
        assert led == sorted(led)

    for seed in range(10):
        run_virtually(main(seed))


LAST = 2**31 - 1


class TypedServer(LeaseServer):
    """Refuses what a Lease's schema refuses."""

    def _store(self, lease: dict[str, Any]) -> Response:
        if not 0 <= lease["spec"].get("leaseTransitions", 0) <= LAST:
            return refusal(422, "Invalid")
        return super()._store(lease)


def foreign(**spec: Any) -> dict[str, Any]:
    """A Lease that somebody wrote."""
    times = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"}
    holder = {"holderIdentity": "somebody", "leaseDurationSeconds": 15, "leaseTransitions": 3}
    return {"metadata": {"name": "leader", "resourceVersion": "1"}, "spec": {**times, **holder, **spec}}


@pytest.mark.parametrize("spec", [
    {"leaseTransitions": LAST},
    {"leaseTransitions": LAST, "holderIdentity": ""},
    {"leaseTransitions": LAST, "holderIdentity": None},
    {"leaseTransitions": LAST - 1},
    {"leaseTransitions": -7},
    {"leaseTransitions": None},
    {"leaseDurationSeconds": LAST},
    {"leaseDurationSeconds": 0},
    {"leaseDurationSeconds": -5},
    {"leaseDurationSeconds": None},
    {"renewTime": "9999-12-31T23:59:59.999999Z"},
    {"renewTime": "yesterday"},
    {"holderIdentity": "\\u202e\\n" + 100_000 * "x"},
])  # fmt: skip
def test_whatever_somebody_wrote_into_a_lease_it_is_had_in_the_end(spec: dict[str, Any]) -> None:
    async def main() -> None:
        server = TypedServer()
        server.lease = foreign(**spec)
        lease = candidate(server, "a")
        async with asyncio.timeout(700):
            epoch = await lease.acquire()
        assert 1 <= epoch <= LAST
        assert server.spec["leaseTransitions"] == epoch
        assert lease.holds()

    run_virtually(main())


@pytest.mark.parametrize("duration_s", [-5, 0, 15])
def test_a_lease_that_was_just_seen_is_nobody_elses_whatever_it_says(duration_s: int) -> None:
    async def main() -> None:
        server = TypedServer()
        server.lease = foreign(leaseDurationSeconds=duration_s)
        assert await candidate(server, "a").try_acquire() is None

    run_virtually(main())


def test_after_the_last_epoch_the_count_begins_anew_when_nothing_of_its_holder_is_under_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        server = TypedServer()
        server.lease = foreign(leaseTransitions=LAST)
        lease = candidate(server, "a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(85):
                await lease.acquire()
        assert server.spec["holderIdentity"] == "somebody"
        assert "last transition" in "".join(str(vars(record).get("problem")) for record in caplog.records)
        assert await lease.acquire() == 1

    run_virtually(main())


def test_a_holder_at_the_last_epoch_that_renews_is_left_alone() -> None:
    async def main() -> None:
        server = TypedServer()
        server.lease = foreign(leaseTransitions=LAST - 1, holderIdentity="")
        holder, other = candidate(server, "a"), candidate(server, "b")
        assert await holder.acquire() == LAST
        keeping = asyncio.create_task(holder.keep())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await other.acquire()
        assert holder.holds()
        keeping.cancel()

    run_virtually(main())
