"""Leader election: a Lease has one holder at a time, by the rules of client-go.

Whether another's Lease has run out is judged by our own monotonic clock: how long we have seen it
unchanged. The times written in it are for people and may be wrong by hours. Every hold has an
epoch of its own (``leaseTransitions``), by which a fence tells the writes of an old leader.

What others may have written into it is bounded: a duration counts for at most ``LONGEST_DURATION_S``, and at
the last number that fits a Lease epochs are counted anew, once nothing of an earlier leader can be under way.

What a leader does with its epoch is the scheduler's business; here is only how it is taken, kept
and given back.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import LEASES
from gpufleet.kube.status import AlreadyExists, Conflict, NotFound
from gpufleet.kube.unknown_outcome import OutcomeUnknown
from gpufleet.model.model_errors import printable


def own_identity(asked: str) -> str:
    """The name of this process in a Lease: the one that is asked for, else host, process and a drawn part.

    A container that is started again has the host name and the number of the process before, and must not
    take the Lease of that one for its own.
    """
    return asked or f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LeadershipLost(KubeError):
    """The Lease is another's, or could not be renewed in time: write nothing more."""


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The part of a Lease that leaders write."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which version of which Lease, and what its holder says of itself."""

    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class LeaseObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Lease, as read and as written (a merge patch, so that other fields stay)."""

    metadata: LeaseMeta = LeaseMeta()
    spec: LeaseSpec = LeaseSpec()


class Terms(msgspec.Struct, frozen=True):
    """The times of a Lease; the defaults are those of Kubernetes' own components.

    Others wait ``duration_s`` after our last renewal before they take over; we stop after ``renew_limit_s``
    without one, so that there are rather seconds without a leader than with two.
    """

    duration_s: int = 15
    renew_limit_s: float = 10.0
    retry_s: float = 2.0


TERMS = Terms()
LOG = logging.getLogger(__name__)
LAST_EPOCH = 2**31 - 1
"""``leaseTransitions`` is a number of 32 bits, and the API server refuses a larger one."""

LONGEST_DURATION_S = 600
"""A holder that names a longer duration and is silent for so long is taken over all the same."""

IN_FLIGHT_S = 75.0
"""No request of an earlier holder is under way after so long: an API server ends each within a minute."""

NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
_DECODER = msgspec.json.Decoder(LeaseObject)


def micro_time(moment: datetime) -> str:
    """A moment as Kubernetes' MicroTime writes it: UTC, always six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Lease:
    """One candidate's view of a Lease, and its hold if it has one.

    ``identity`` must be unique to this process: a restarted one is another candidate. ``annotations`` stand
    on the Lease while it is ours, for questions about how its holder decides.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        identity: str,
        terms: Terms = TERMS,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._terms = terms
        self._annotations = dict(annotations)
        self._seen: LeaseObject | None = None
        self._seen_since_s = 0.0
        self._epoch: int | None = None
        self._valid_until_s = 0.0
        self._problem = "this process did not run"
        self._said = ""
        self.holder = ""

    @property
    def epoch(self) -> int | None:
        """The epoch of our hold; None if we have none. Grows with every new holder."""
        return self._epoch

    def holds(self) -> bool:
        """Whether we may act as the leader at this moment; False as soon as renewals are late."""
        return self._epoch is not None and self._clock.monotonic_s() < self._valid_until_s

    async def acquire(self, *, least_epoch: int = 1) -> int:
        """Wait until the Lease is ours; the epoch, at least ``least_epoch``.

        A Lease that was deleted begins to count anew; ``least_epoch`` keeps it above epochs already in use.
        Failures of the world are waited out.
        """
        while True:
            try:
                # A hold that took longer to get would be over before it began.
                async with asyncio.timeout(self._terms.renew_limit_s):
                    epoch = await self.try_acquire(least_epoch=least_epoch)
            except (KubeError, TimeoutError) as error:
                epoch = None
                self._say("the Lease cannot be had", str(error) or "no answer in time")
            if epoch is not None:
                return epoch
            # Spread, so that replicas which see the Lease run out do not all write at one moment.
            await self._clock.sleep(self._terms.retry_s * self._client.jitter.uniform(1.0, 1.2))

    async def try_acquire(self, *, least_epoch: int = 1) -> int | None:
        """Take the Lease if it is free or has run out; the epoch, or None if another holds it.

        Raises StatusError and TransportError; after an unknown outcome the next try finds out.
        """
        # The hold counts from here and not from the answer, which may come seconds later.
        asked_at_s = self._clock.monotonic_s()
        try:
            seen = await self._read()
        except NotFound:
            return await self._create(asked_at_s, least_epoch)
        if seen.spec.holder_identity == self._identity and seen.spec.lease_transitions is not None:
            # Our own write, in a try without a heard outcome.
            wanted = LeaseSpec(renew_time=self._now())
        elif self._has_run_out(seen):
            known = seen.spec.lease_transitions or 0
            # The epoch grows with every holder; beyond the last one it begins anew, which ``_has_run_out``
            # delays.
            wanted = self._hold_spec(max(known + 1 if known < LAST_EPOCH else 1, least_epoch))
        else:
            return None
        try:
            written = await self._patch(wanted, seen)
        # Another replica was faster, or the Lease was deleted: the next try sees which.
        except (Conflict, NotFound):
            return None
        return self._hold(written, asked_at_s)

    async def keep(self) -> None:
        """Renew until cancelled.

        Raises LeadershipLost when the hold is over: at the latest ``renew_limit_s`` after the last renewal,
        and so before another process can have it.
        """
        while True:
            await self._clock.sleep(self._terms.retry_s)
            try:
                if self.holds():
                    # A renewal that is answered after the hold's end must not prolong it.
                    async with asyncio.timeout_at(self._valid_until_s):
                        await self._renew()
            except LeadershipLost:
                self._epoch = None
                raise
            except (KubeError, TimeoutError) as error:
                self._problem = str(error) or "no answer in time"
            if not self.holds():
                self._epoch = None
                limit_s = self._terms.renew_limit_s
                raise LeadershipLost(f"the Lease was not renewed for {limit_s:.0f} s: {self._problem}")

    async def release(self) -> None:
        """Give the Lease back, so that the next leader need not wait. Raises KubeError.

        Call it when nothing of ours can write any more; without a hold it does nothing.
        """
        if self._epoch is None or self._seen is None:
            return
        self._epoch = None
        # The API server refuses a duration of 0; client-go gives a Lease up with 1, too.
        spec = LeaseSpec(holder_identity="", lease_duration_seconds=1, renew_time=self._now())
        try:
            await self._patch(spec, self._seen)
        except (Conflict, NotFound):
            return

    async def _renew(self) -> None:
        asked_at_s = self._clock.monotonic_s()
        assert self._seen is not None  # noqa: S101  (a holder has seen it)
        try:
            written = await self._patch(LeaseSpec(renew_time=self._now()), self._seen)
        except (Conflict, OutcomeUnknown):
            # The conflict may be with our own renewal, if its answer was lost, or with a new label on the
            # Lease.
            seen = await self._read()
            self._check_still_ours(seen)
            written = await self._patch(LeaseSpec(renew_time=self._now()), seen)
        except NotFound as error:
            raise LeadershipLost("the Lease was deleted") from error
        self._check_still_ours(written)
        self._hold(written, asked_at_s)

    def _check_still_ours(self, seen: LeaseObject) -> None:
        if seen.spec.holder_identity != self._identity or seen.spec.lease_transitions != self._epoch:
            raise LeadershipLost(f"the Lease is held by {seen.spec.holder_identity!r} now")

    async def _create(self, asked_at_s: float, epoch: int) -> int | None:
        metadata = LeaseMeta(name=self._name, annotations=self._annotations)
        body = LeaseObject(metadata, self._hold_spec(epoch))
        try:
            answer = await self._client.create(
                LEASES, body, name=self._name, namespace=self._namespace, retry_limits=ONE_TRY
            )
        except AlreadyExists:
            return None
        return self._hold(self._saw(decode(answer, _DECODER)), asked_at_s)

    def _hold_spec(self, epoch: int) -> LeaseSpec:
        now = self._now()
        return LeaseSpec(self._identity, self._terms.duration_s, now, now, epoch)

    def _hold(self, written: LeaseObject, asked_at_s: float) -> int | None:
        """The hold counts from before we asked: the server may have renewed it right then."""
        self._epoch = written.spec.lease_transitions
        self._valid_until_s = asked_at_s + self._terms.renew_limit_s
        self._problem = "this process did not run"
        return self._epoch

    async def _read(self) -> LeaseObject:
        answer = await self._client.get(LEASES, self._name, namespace=self._namespace, retry_limits=ONE_TRY)
        return self._saw(decode(answer, _DECODER))

    async def _patch(self, spec: LeaseSpec, seen: LeaseObject) -> LeaseObject:
        """Conflict unless the Lease is still as we saw it."""
        version = LeaseMeta(resource_version=seen.metadata.resource_version, annotations=self._annotations)
        answer = await self._client.patch(
            LEASES, self._name, LeaseObject(version, spec), namespace=self._namespace, retry_limits=ONE_TRY
        )
        return self._saw(decode(answer, _DECODER))

    def _saw(self, found: LeaseObject) -> LeaseObject:
        """Remember since when it looks like this."""
        if self._seen is None or self._seen.metadata.resource_version != found.metadata.resource_version:
            self._seen_since_s = self._clock.monotonic_s()
        self._seen = found
        self.holder = found.spec.holder_identity or ""
        return found

    def _has_run_out(self, seen: LeaseObject) -> bool:
        """Whether it is free, as far as we have watched it."""
        spec = seen.spec
        unchanged_s = self._clock.monotonic_s() - self._seen_since_s
        if (spec.lease_transitions or 0) >= LAST_EPOCH:
            # A fence lets the writes of such a holder pass whatever comes after it.
            limit_s = IN_FLIGHT_S + self._duration_s(spec)
            words = f"it is at its last transition, {LAST_EPOCH}; epochs begin anew once it is unchanged"
            self._say("the Lease cannot be had at once", f"{words} for {limit_s:.0f} s")
            return unchanged_s >= limit_s
        return not spec.holder_identity or unchanged_s >= self._duration_s(spec)

    def _duration_s(self, spec: LeaseSpec) -> int:
        """How long an unchanged Lease stays its holder's, in seconds."""
        told_s = spec.lease_duration_seconds or 0
        if told_s <= 0:
            return self._terms.duration_s
        most_s = max(LONGEST_DURATION_S, self._terms.duration_s)
        if told_s > most_s:
            words = f"{printable(self.holder)} names a duration of {told_s} s; it counts for {most_s} s"
            self._say("the Lease is held for longer than any scheduler asks for", words)
        return min(told_s, most_s)

    def _say(self, what: str, problem: str) -> None:
        """A line in the log, once for each problem."""
        if self._said != problem:
            self._said = problem
            LOG.warning(what, extra={"lease": f"{self._namespace}/{self._name}", "problem": problem})

    def _now(self) -> str:
        return micro_time(self._clock.now())
