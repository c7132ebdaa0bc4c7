"""Which devices are tried first: Kubernetes takes the first that fit, this keeps more for what comes later.

Of partitions of cards the card goes first on which the fewest partitions, by their size, are lost for others,
then the fullest; on a card the order of the driver stays, which knows its places. Of shared devices the one
with the least room goes first, of whole devices those behind one PCIe root that is just large enough. Smaller
devices go before whole cards. Only the order is another: what is found is valid in the same way.
"""

import re
from collections import Counter as Sums
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.constraints import Values, attribute_values
from gpufleet.dra_allocation.matching import ChoiceMatcher
from gpufleet.dra_allocation.pools import Candidate, Counter
from gpufleet.dra_allocation.slices import NUMA_NODE, PCIE_ROOT
from gpufleet.dra_allocation.trial import Trial

LINKS = (PCIE_ROOT, NUMA_NODE)
"""Attributes by which devices are near each other, the nearest first."""

SIZE_OF_A_WHOLE = 1000
"""Sizes are counted in thousandths, so that sums of them are exact."""

Card = tuple[str, str, tuple[str, ...]]
"""Driver, pool and the sets of counters that a partition draws on."""

Draws = tuple[tuple[Counter, int], ...]
"""What a partition draws of counters, in nano units."""

Key = tuple[int, ...]
_DIGITS = re.compile(r"\d+")


class CandidateOrder(Protocol):
    """Puts the devices of a node into the order in which they are tried for a choice."""

    def __call__(
        self, matcher: ChoiceMatcher, candidates: Sequence[Candidate], count: int, trial: Trial, /
    ) -> Sequence[Candidate]:
        """All the devices, in the order to try them in."""
        ...


def first_fit(
    _matcher: ChoiceMatcher, candidates: Sequence[Candidate], _count: int, _trial: Trial
) -> Sequence[Candidate]:
    """The order of pools and slices, which is that of Kubernetes."""
    return candidates


class LeastLoss:
    """The order in which the least is lost for later claims; the given one where it cannot be told.

    One for each node: what devices draw is worked out once.
    """

    def __init__(self) -> None:
        self._cards: dict[Card, _PartitionedCard] = {}

    def __call__(
        self, matcher: ChoiceMatcher, candidates: Sequence[Candidate], count: int, trial: Trial, /
    ) -> Sequence[Candidate]:
        """The devices, those that could serve the choice first."""
        try:
            fitting = [one for one in candidates if trial.could_take(matcher, one)]
        except ClaimError:
            return candidates
        places = {one: place for place, one in enumerate(candidates)}
        keys: dict[Candidate, Key] = {}
        for one, key in (
            *_of_shares(matcher, fitting, trial),
            *self._of_partitions(fitting, candidates, trial),
            *_of_wholes(fitting, count),
        ):
            # A pool whose devices are prepared before they are bound stays last.
            keys[one] = (bool(one.device.binding_conditions), *key, places[one])
        rest = [one for one in candidates if one not in keys]
        return [*sorted(keys, key=keys.__getitem__), *rest]

    def _of_partitions(
        self, fitting: Sequence[Candidate], candidates: Sequence[Candidate], trial: Trial
    ) -> Iterator[tuple[Candidate, Key]]:
        """Cards by what the first place of each loses for others; places on a card as they are listed."""
        if not self._cards:
            self._cards = dict(_cards(candidates, trial))
        wanted: dict[Card, list[Candidate]] = {}
        for one in fitting:
            if _is_partition(one):
                wanted.setdefault(_card(one), []).append(one)
        for name, chosen in wanted.items():
            card, left = self._cards[name], trial.counters_left(chosen[0])
            key = card.loss(chosen[0], left), -card.used(left)
            for one in chosen:
                # A partition as large as its card goes last, beside whole cards: it breaks a card for one
                # claim.
                yield one, (2 if card.sizes[one] >= SIZE_OF_A_WHOLE else 1, *key)


class _PartitionedCard:
    """The partitions of one card, and how many of each size fit beside what is held.

    Counters that number the places of a card, such as memory-slice-3, say what excludes what: partitions with
    the same places count once, whatever else they draw. Where no counter does, all counters say it.
    """

    def __init__(self, devices: Sequence[Candidate], total: Mapping[Counter, int]) -> None:
        draws = {one: tuple(draw for draw in one.draws if _DIGITS.search(draw[0][1])) for one in devices}
        if not all(draws.values()):
            draws = {one: one.draws for one in devices}
        names = {name for drawn in draws.values() for name, _ in drawn}
        self._total = {name: total[name] for name in sorted(names)}
        self._draws = draws
        there = _without_places(self._total.items())
        self.sizes: dict[Candidate, int] = {}
        alike: dict[tuple[tuple[str, int], ...], dict[Draws, None]] = {}
        for one, drawn in draws.items():
            sums = _without_places(drawn)
            self.sizes[one] = max(_share(amount, there[name]) for name, amount in sums.items())
            alike.setdefault(tuple(sorted(sums.items())), {})[drawn] = None
        sizes = {drawn: self.sizes[one] for one, drawn in draws.items()}
        self._alike = [(sizes[next(iter(places))], tuple(places)) for places in alike.values()]

    def used(self, left: Mapping[Counter, int]) -> int:
        """How full the card is."""
        return sum(_share(amount - left[name], amount) for name, amount in self._total.items())

    def loss(self, chosen: Candidate, left: Mapping[Counter, int]) -> int:
        """How many partitions of each size fewer fit once the device is taken, each by its size."""
        before = {name: left[name] for name in self._total}
        after = dict(before)
        for name, amount in self._draws[chosen]:
            after[name] -= amount
        return sum(
            size * (_fitting(places, before) - _fitting(places, after)) for size, places in self._alike
        )


def _cards(candidates: Sequence[Candidate], trial: Trial) -> Iterator[tuple[Card, _PartitionedCard]]:
    found: dict[Card, list[Candidate]] = {}
    for one in candidates:
        if _is_partition(one):
            found.setdefault(_card(one), []).append(one)
    for name, devices in found.items():
        yield name, _PartitionedCard(devices, trial.counters_of(devices[0]))


def _is_partition(one: Candidate) -> bool:
    return bool(one.draws) and not one.device.is_shareable


def _card(one: Candidate) -> Card:
    return one.id.driver, one.id.pool, tuple(use.counter_set for use in one.device.counter_uses)


def _without_places(draws: Iterable[tuple[Counter, int]]) -> Sums[str]:
    """The sums of counters of which each is for a place: memory-slice-3 is as memory-slice-4."""
    sums: Sums[str] = Sums()
    for (_, name), amount in draws:
        sums[_DIGITS.sub("#", name)] += amount
    return sums


def _of_shares(
    matcher: ChoiceMatcher, fitting: Sequence[Candidate], trial: Trial
) -> Iterator[tuple[Candidate, Key]]:
    """The least room that would be left first, so devices in use before others."""
    for one in fitting:
        if one.device.is_shareable:
            room = sum(
                _share(has.value.nano - trial.taken_nano(one, name) - taken.nano, has.value.nano)
                for name, has in one.device.capacity.items()
                if (taken := (matcher.amounts(one) or {}).get(name)) is not None
            )
            yield one, (0, room)


def _of_wholes(fitting: Sequence[Candidate], count: int) -> Iterator[tuple[Candidate, Key]]:
    """Devices near each other together: the smallest group that is large enough, then the largest."""
    groups: dict[tuple[str, str, Values], list[Candidate]] = {}
    for one in fitting:
        if not one.draws and not one.device.is_shareable:
            groups.setdefault((*one.id[:2], _link(one)), []).append(one)
    for group in groups.values():
        enough = len(group) >= count
        for one in group:
            yield one, (2, 0 if enough else 1, len(group) if enough else -len(group))


def _link(one: Candidate) -> Values:
    found = (attribute_values(one.id.driver, one.device, name) for name in LINKS)
    return next((values for values in found if values), frozenset())


def _fitting(places: Sequence[Draws], left: Mapping[Counter, int]) -> int:
    """How many of these fit together into what is left, taken one after the other."""
    rest = dict(left)
    count = 0
    for drawn in places:
        if all(amount <= rest[name] for name, amount in drawn):
            count += 1
            for name, amount in drawn:
                rest[name] -= amount
    return count


def _share(amount: int, total: int) -> int:
    return amount * SIZE_OF_A_WHOLE // total if total > 0 else 0
