"""The queues as the engine was told of them, and which namespaces' work waits in which.

A FleetQueue that cannot be understood keeps its last good reading and is reported with the field until it is
mended; it harms no other. Whether queues make a tree together is the engine's to judge.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gpufleet.cluster.queues import (
    budget_holds,
    immunity_records,
    learned_records,
    nomination_records,
    reservation_records,
)
from gpufleet.engine.event import (
    Event,
    ImmunityRecalled,
    KeptPlaces,
    PastUseOf,
    PastUseRecalled,
    PricesSet,
    QueueRemoved,
    QueueSet,
    ReservationsRecalled,
    RunTimesRecalled,
)
from gpufleet.engine.instruction import Reservation
from gpufleet.kube import resources
from gpufleet.kube.codec.fleet_queues import QueueTerms, read_fleet_queue
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.queues import NamespaceQueues
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.fleet_queues import FleetQueue, status_of
from gpufleet.model.identifiers import GpuModelName, QueueName, QuotaResource
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.queue import QueueState

LOCAL_NAMES_TOLD = 1000
"""A status names at most so many namespaces: the definition of FleetQueue takes no more."""

LOG = logging.getLogger(__name__)


class QueueTracker:
    """What the engine knows of each queue."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self.known: dict[QueueName, QueueTerms] = {}
        self.problems: dict[QueueName, str] = {}
        self._prices: dict[GpuModelName, int] = {}
        self._claims: dict[str, list[QueueName]] = {}
        self._local: dict[str, dict[str, QueueName]] = {}
        self._selecting: list[QueueTerms] = []
        self._elsewhere: dict[QueueName, tuple[str, ...]] = {}
        self._of_namespace: dict[str, NamespaceQueues] = {}
        self._before: dict[str, NamespaceQueues] = {}
        self._stale = False
        self._held_until_us: dict[QueueName, int] = {}
        self.now_us: Callable[[], int] = lambda: 0

    def update(self, name: QueueName, unreadable: str = "") -> list[Event]:
        """A FleetQueue changed: what that means for the engine. ``unreadable``: why it cannot be decoded."""
        if unreadable:
            self._report(name, f"FleetQueue {printable(name)}: {printable(unreadable, 500)}")
            return []
        found: FleetQueue | None = self.cluster.find(resources.FLEET_QUEUES, name)
        before = self.known.get(name)
        if found is None:
            self.problems.pop(name, None)
            self._held_until_us.pop(name, None)
            if before is None:
                return []
            del self.known[name]
            return [QueueRemoved(name), *self._after(before, None)]
        try:
            terms = self._within_budget(self._since(read_fleet_queue(found), found), found)
        except ObjectError as problem:
            self._report(name, str(problem))
            return []
        self.problems.pop(name, None)
        self.known[name] = terms
        immune_uids = [] if before is not None and before.queue == terms.queue else [QueueSet(terms.queue)]
        return [*immune_uids, *self._after(before, terms)]

    def _since(self, terms: QueueTerms, found: FleetQueue) -> QueueTerms:
        """The terms, with the time at which we, or an earlier leader, first saw a draining queue drain."""
        if terms.queue.state is not QueueState.DRAINING:
            return terms
        before = self.known.get(terms.queue.name)
        since_us = None if before is None else before.queue.draining_since_us
        if before is None:
            # A status that another writer broke says nothing: the queue drains from now on.
            with contextlib.suppress(InputError):
                since_us = microseconds(status_of(found).draining_since) or None
        drains = msgspec.structs.replace(terms.queue, draining_since_us=since_us or self.now_us())
        return msgspec.structs.replace(terms, queue=drains)

    def _within_budget(self, terms: QueueTerms, found: FleetQueue) -> QueueTerms:
        """The terms, with the budget that is spent, where the ledger says so for now."""
        name, hold = terms.queue.name, budget_holds.read_hold(found)
        if hold is None or not hold.holds(self.now_us()):
            self._held_until_us.pop(name, None)
            return terms
        self._held_until_us[name] = hold.until_us
        return msgspec.structs.replace(
            terms, queue=msgspec.structs.replace(terms.queue, spent_budget=hold.budget)
        )

    def take_released(self) -> list[Event]:
        """Queues whose work was held for a budget until now, and of which the ledger says no more."""
        now_us, found = self.now_us(), list[Event]()
        for name in [name for name, until_us in self._held_until_us.items() if until_us <= now_us]:
            del self._held_until_us[name]
            terms = self.known[name]
            queue = msgspec.structs.replace(terms.queue, spent_budget="")
            self.known[name] = msgspec.structs.replace(terms, queue=queue)
            found.append(QueueSet(queue))
        return found

    def recalled(self) -> list[Event]:
        """What an earlier leader wrote down of past usage and run times, a queue an event: a bad one harms no
        other.
        """
        found: list[Event] = []
        for queue in self.cluster.all(resources.FLEET_QUEUES):
            name = QueueName(queue.metadata.name)
            terms, status = self.known.get(name), status_of(queue)
            uses = tuple(
                PastUseOf(name, QuotaResource(one.resource), one.at_us, one.used, one.value, one.area)
                for one in status.past_use
            )
            if uses and terms is not None:
                found.append(PastUseRecalled(uses))
            if status.learned_run_times and terms is not None and terms.queue.learn_run_times:
                found.append(RunTimesRecalled(learned_records.read(status.learned_run_times, name)))
        return found

    def reserved_before(self) -> list[Event]:
        """What an earlier leader wrote down of reservations."""
        found: list[Reservation] = []
        for queue in self.cluster.all(resources.FLEET_QUEUES):
            name, status = QueueName(queue.metadata.name), status_of(queue).reservation
            one = None if status is None or name not in self.known else reservation_records.read(status, name)
            if one is not None:
                found.append(one)
        return [ReservationsRecalled(tuple(found))] if found else []

    def nominated_before(self) -> list[KeptPlaces]:
        """What an earlier leader wrote down of places that wait for pods to leave them."""
        found: list[KeptPlaces] = []
        for queue in self.cluster.all(resources.FLEET_QUEUES):
            name = QueueName(queue.metadata.name)
            if name in self.known:
                found += nomination_records.read(status_of(queue).nominations, name)
        return found

    def immune_before(self) -> list[Event]:
        """What an earlier leader wrote down of pods that are not evicted for a queue."""
        if not self.known:
            return []
        queues = self.cluster.all(resources.FLEET_QUEUES)
        immune_uids = ((QueueName(queue.metadata.name), status_of(queue).immune_pods) for queue in queues)
        immune = (
            immunity_records.read(uids, name) for name, uids in immune_uids if uids and name in self.known
        )
        return [ImmunityRecalled(tuple(immune))]

    def of_namespace(self, namespace: str) -> NamespaceQueues:
        """What the queues say of a namespace."""
        self._settle()
        found = self._of_namespace.get(namespace)
        if found is None:
            found = NamespaceQueues(self._mapped(namespace), self._local.get(namespace, {}))
            self._of_namespace[namespace] = found
        return found

    def take_moved(self, relabelled: Iterable[str]) -> list[str]:
        """Namespaces of which the queues say something else than when their pods were last read.

        ``relabelled`` have other labels now, or are gone.
        """
        self._settle()
        before, self._before = self._before, {}
        for namespace in relabelled:
            if namespace in self._of_namespace:
                before.setdefault(namespace, self._of_namespace.pop(namespace))
        return [namespace for namespace, said in before.items() if self.of_namespace(namespace) != said]

    def local_name_in(self, name: QueueName) -> tuple[str, ...]:
        """Namespaces in which the name of a queue is a local name of another one."""
        self._settle()
        return self._elsewhere.get(name, ())

    def shared_namespaces(self, name: QueueName) -> dict[str, QueueName]:
        """Namespaces that a queue lists and another one has, because its name comes first."""
        self._settle()
        terms = self.known.get(name)
        listed = () if terms is None else terms.namespaces
        return {namespace: self._claims[namespace][0] for namespace in listed if self._loses(name, namespace)}

    def _loses(self, name: QueueName, namespace: str) -> bool:
        return self._claims[namespace][0] != name

    def _after(self, before: QueueTerms | None, after: QueueTerms | None) -> Iterator[Event]:
        """Prices and the mapping of namespaces, where they changed."""
        self._stale |= _mapping(before) != _mapping(after)
        if (before.prices if before else ()) != (after.prices if after else ()):
            prices = self._merged_prices()
            if prices != self._prices:
                self._prices = prices
                yield PricesSet(tuple(sorted(prices.items())))

    def _merged_prices(self) -> dict[GpuModelName, int]:
        """One table for the fleet; of two queues that name a model the first by name counts."""
        found: dict[GpuModelName, int] = {}
        for name in sorted(self.known):
            for model, price_milli in self.known[name].prices:
                found.setdefault(model, price_milli)
        return found

    def _settle(self) -> None:
        """Map namespaces anew if some queue says something else of them."""
        if not self._stale:
            return
        self._stale = False
        # Of two former answers the older one counts: pods were last read by that.
        self._before = self._of_namespace | self._before
        self._of_namespace = {}
        self._claims, self._local, self._selecting = {}, {}, []
        # By name, so that every process comes to one answer, in whatever order the queues came.
        for name in sorted(self.known):
            terms = self.known[name]
            for namespace in terms.namespaces:
                self._claims.setdefault(namespace, []).append(name)
            for namespace, local in terms.local_names:
                self._local.setdefault(namespace, {}).setdefault(local, name)
            if terms.selector is not None:
                self._selecting.append(terms)
        elsewhere: dict[QueueName, list[str]] = {}
        for namespace, names in sorted(self._local.items()):
            for local, meant in names.items():
                if meant != local and QueueName(local) in self.known:
                    elsewhere.setdefault(QueueName(local), []).append(namespace)
        self._elsewhere = {name: tuple(found[:LOCAL_NAMES_TOLD]) for name, found in elsewhere.items()}

    def _mapped(self, namespace: str) -> QueueName | None:
        """The queue that lists the namespace, else the first by name that selects it."""
        claims = self._claims.get(namespace)
        if claims:
            return claims[0]
        if not self._selecting:
            return None
        found = self.cluster.find(resources.NAMESPACES, namespace)
        labels = {} if found is None else found.metadata.labels
        chosen = (one for one in self._selecting if one.selector is not None and one.selector.accepts(labels))
        return next((one.queue.name for one in chosen), None)

    def _report(self, name: QueueName, problem: str) -> None:
        if self.problems.get(name) != problem:
            LOG.error("a queue cannot be read", extra={"queue": str(name), "problem": problem})
        self.problems[name] = problem


def _mapping(terms: QueueTerms | None) -> object:
    """What of a queue decides which namespaces' work waits in it."""
    return None if terms is None else (terms.namespaces, terms.selector, terms.local_names)
