"""A local copy of one kind, kept by a list and a watch.

``replica`` holds the copy and its rules; here is what happens on the wire: listing, following,
noticing that a server has fallen silent, and finding back after any failure.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Generic

import msgspec

from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.client import PAGE_SIZE, WATCH_S, Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import ALL, Selection
from gpufleet.kube.mirror_changes import Change, Object
from gpufleet.kube.replica import Bad, Identity, Inconsistent, Key, ObjectDecoder, Replica, is_newer
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import (
    Gone,
    NotFound,
    Status,
    StatusError,
    TooManyRequests,
    Unavailable,
    read_status,
    status_error,
)
from gpufleet.kube.watch_stream import ADDED, BOOKMARK, DELETED, ERROR, MODIFIED, WatchBroken, WatchEvent

REFUSALS_BEFORE_LIST = 3
"""A watch that is refused once may have met a server that lags behind; a list costs far more."""

# One page that fails should not cost all that came before it.
PAGE_RETRY_LIMITS = RetryLimits(attempts=3, budget_s=10.0)


class Pace(msgspec.Struct, frozen=True):
    """How a mirror follows.

    A server sends a bookmark about once a minute, so after ``silence_limit_s`` without a byte the server is
    taken for gone. ``relist_spread_s`` keeps many mirrors from listing at one moment. A list that is older
    than what we know is refused until ``restored_after_s``; from then on the server is believed to have been
    restored from a backup.
    """

    page_size: int = PAGE_SIZE
    watch_s: int = WATCH_S
    silence_limit_s: float = 100.0
    relist_spread_s: float = 1.0
    absent_pause_s: float = 30.0
    restored_after_s: float = 60.0
    pauses: RetryLimits = RetryLimits(first_s=0.1, longest_s=30.0)


PACE = Pace()


class Health(msgspec.Struct, frozen=True):
    """How a mirror is doing, for readiness and metrics.

    ``heard_s_ago`` is None before the server was first heard; ``problem`` is empty while a watch
    is open. ``lists`` counts whole lists; a kind that the server does not serve has none.
    """

    listed: bool
    following: bool
    heard_s_ago: float | None
    problem: str
    lists: int
    watches: int
    events: int
    unreadable: int


class Mirror(Generic[Object]):
    """A local copy of one kind that follows the API server until it is cancelled.

    ``sink`` is called synchronously, in the loop, for each change; what it raises stops the mirror.
    Guarantees:

    - Every object of the last list is in ``objects`` or was told as Vanished since; what a list
      lacks is told as Vanished. No change is told twice.
    - Changes of one object come in the order of their resourceVersions; an older version never
      replaces a newer one of the same uid, whatever a lagging server sends.
    - A list that breaks off between its pages changes nothing.
    - A name that has a new uid is told as Vanished and then Appeared, even if the deletion was missed.
    - Listed is told once, after the first whole list.
    - An object that cannot be read is told as Unreadable and harms no other; the last readable version of its
      uid stays. It ends with Appeared or Changed of its uid, or UnreadableGone.
    - The one exception to "never older": a server that was restored from a backup (its lists stay
      older than what we know for ``Pace.restored_after_s``) is believed again.

    What is told may be late, by at most ``Pace.silence_limit_s`` and the time to connect while the
    server can be reached; ``health`` says how late it may be.

    ``optional`` is for kinds that may not be installed: where the server does not serve them the
    list is empty, and asked for again now and then.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        decoder: ObjectDecoder[Object],
        sink: Callable[[Change[Object]], None],
        *,
        namespace: str = "",
        selection: Selection = ALL,
        optional: bool = False,
        pace: Pace = PACE,
    ) -> None:
        self.kind = kind
        self._client = client
        self._clock = client.clock
        self._replica = Replica(decoder, sink)
        self._namespace = namespace
        self._selection = selection
        self._optional = optional
        self.served = True
        """False while the server does not know the kind."""
        self._pace = pace
        self._backoff = Backoff(pace.pauses, client.jitter)
        self._whole = asyncio.Event()
        self._must_list = True
        self._refusals = 0
        self._went_back_at_s: float | None = None
        self._heard_at_s: float | None = None
        self._following = False
        self.is_listing = False
        """True while a list is told: what vanishes then was gone at some moment since the last event."""

        self._problem = "not started"
        self._lists = self._watches = self._events = 0

    @property
    def objects(self) -> Mapping[Key, Object]:
        """What exists, by namespace and name, as far as we heard. Do not keep it over an await."""
        return self._replica.objects

    @property
    def unreadable(self) -> Mapping[Key, Identity]:
        """The objects with a newest version that cannot be read."""
        return self._replica.unreadable

    @property
    def position(self) -> str:
        """The resourceVersion that ``objects`` is of; "" before the first list."""
        return self._replica.position

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object of this name, if there is one that could be read."""
        return self._replica.objects.get((namespace, name))

    def health(self) -> Health:
        """How it is doing now."""
        heard = None if self._heard_at_s is None else self._clock.monotonic_s() - self._heard_at_s
        return Health(
            listed=self._replica.listed,
            following=self._following,
            heard_s_ago=heard,
            problem=self._problem,
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            unreadable=len(self._replica.unreadable),
        )

    async def wait_listed(self) -> None:
        """Wait for the first whole list."""
        await self._whole.wait()

    async def run(self) -> None:
        """Follow until cancelled; failures of the world are told by ``health`` and tried again."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._follow()
            except (Gone, Inconsistent) as error:
                self._must_list = True
                await self._pause(error, self._client.jitter.uniform(0.0, self._pace.relist_spread_s))
            except NotFound as error:
                await self._absent(error)
            except KubeError as error:
                self._count_refusal(error)
                await self._pause(error)

    async def _list(self) -> None:
        found: list[Object | Bad] = []
        position = ""
        async for page in self._client.list_pages(
            self.kind,
            namespace=self._namespace,
            selection=self._selection,
            page_size=self._pace.page_size,
            retry_limits=PAGE_RETRY_LIMITS,
        ):
            found.extend(self._replica.read(raw) for raw in page.items or ())
            position = page.metadata.resource_version
        restored = self._check_position(position)
        self._lists += 1
        self._take_list(found, position, restored=restored)

    def catch_up(self, listed: Iterable[msgspec.Raw], position: str) -> None:
        """Take over a whole list that was made elsewhere, as if the mirror had just made it itself."""
        self._lists += 1
        self._take_list([self._replica.read(raw) for raw in listed], position)

    def _take_list(self, found: list[Object | Bad], position: str, *, restored: bool = False) -> None:
        self.served = True
        self._must_list = False
        self._refusals = 0
        self._heard()
        self.is_listing = True
        try:
            self._replica.apply_list(found, position, restored=restored)
        finally:
            self.is_listing = False
        self._whole.set()

    def _check_position(self, position: str) -> bool:
        """Whether the server was restored from a backup. Raises WatchBroken where it only lags."""
        held = self._replica.position
        # Versions that are no numbers have no order, so none is older.
        if not held or not is_newer(held, position) or not held.isdigit():
            self._went_back_at_s = None
            return False
        now_s = self._clock.monotonic_s()
        if self._went_back_at_s is None:
            self._went_back_at_s = now_s
        if now_s - self._went_back_at_s < self._pace.restored_after_s:
            raise WatchBroken(f"the server listed version {position}, older than {held}, which we know")
        self._went_back_at_s = None
        return True

    async def _follow(self) -> None:
        """One watch, until it ends or fails."""
        # As client-go does: watches that began together do not end together.
        lasts_s = int(self._pace.watch_s * self._client.jitter.uniform(1.0, 2.0))
        watch = await self._client.watch(
            self.kind,
            self._replica.position,
            namespace=self._namespace,
            selection=self._selection,
            lasts_s=lasts_s,
        )
        self._watches += 1
        self._heard()
        self._following, self._problem = True, ""
        told = False
        limit_s = self._pace.silence_limit_s
        # The server was told when to end it: one that drips on is left.
        ends_s = self._clock.monotonic_s() + lasts_s + limit_s
        try:
            async with asyncio.timeout(limit_s) as silence:
                async for batch in watch:
                    silence.reschedule(min(self._clock.monotonic_s() + limit_s, ends_s))
                    self._heard()
                    if batch:
                        self._apply(batch)
                        told = True
                        self._backoff.reset()
        except TimeoutError as error:
            if self._clock.monotonic_s() >= ends_s:
                raise WatchBroken(f"the watch was to end after {lasts_s} s and did not") from error
            raise WatchBroken(f"the watch was silent for {limit_s:.0f} s") from error
        finally:
            self._following = False
            await watch.close()
        if not told:
            # A server that ends every watch at once must not be asked in a tight loop.
            raise WatchBroken("the watch ended before it told anything")

    def _apply(self, batch: list[WatchEvent]) -> None:
        for event in batch:
            if event.type in {ADDED, MODIFIED, DELETED}:
                self._events += 1
                self._replica.apply_event(event)
            elif event.type == BOOKMARK:
                self._replica.apply_bookmark(event)
            elif event.type == ERROR:
                raise status_error(read_status(event.object) or Status(reason="Unknown"))
            else:
                raise WatchBroken(f"a watch sent an event of unknown type {event.type!r}")

    async def _absent(self, error: NotFound) -> None:
        if not self._optional:
            self._must_list = True
            await self._pause(error)
            return
        self._take_list([], "")
        # Its definition may be installed later.
        self._must_list = True
        self.served = False
        self._problem = f"the server does not serve {self.kind.plural}.{self.kind.group}"
        await self._clock.sleep(self._pace.absent_pause_s * self._client.jitter.uniform(0.5, 1.0))

    def _count_refusal(self, error: KubeError) -> None:
        """A server that goes on refusing our version is asked for a list instead.

        Being down or busy is no refusal: after that the watch resumes where it was.
        """
        if isinstance(error, StatusError) and not isinstance(error, TooManyRequests | Unavailable):
            self._refusals += 1
            if self._refusals >= REFUSALS_BEFORE_LIST:
                self._must_list = True

    async def _pause(self, error: Exception, more_s: float = 0.0) -> None:
        self._problem = str(error)
        retry_after_s = error.retry_after_s if isinstance(error, StatusError) else None
        await self._clock.sleep(self._backoff.next_s(retry_after_s) + more_s)

    def _heard(self) -> None:
        self._heard_at_s = self._clock.monotonic_s()
