"""Which lists of a kind have an object and which do not.

Lists are looked through once, in the order of their numbers, and only where two that follow one another
differ. Years of lists that say the same of an object are then one run.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.ledger.versions import Listed


class ListIndex:
    """Lists of one kind."""

    def __init__(self, lists: Iterable[Listed]) -> None:
        in_order = sorted(lists, key=lambda one: one.number)
        self._numbers = [one.number for one in in_order]
        self._moments = [one.at_us for one in in_order]
        self._is_in_time = all(map(int.__le__, self._moments, self._moments[1:]))
        self._runs: dict[str, list[range]] = defaultdict(list)
        begins: dict[str, int] = {}
        before: frozenset[str] = frozenset()
        for place, one in enumerate(in_order):
            # Equal lists that follow one another are often one set (``log_file``): comparing them costs
            # nothing then.
            if one.uids is before:
                continue
            for uid in before - one.uids:
                self._runs[uid].append(range(begins.pop(uid), place))
            begins.update(dict.fromkeys(one.uids - before, place))
            before = one.uids
        for uid, place in begins.items():
            self._runs[uid].append(range(place, len(in_order)))

    def last_with_us(self, uid: str) -> int:
        """The latest moment of a list that has it; 0 where none has."""
        return max((self._latest(run) for run in self._runs.get(uid, ())), default=0)

    def first_without_us(self, uid: str, after: int) -> int | None:
        """The earliest moment of a list that has not, of those with a number behind ``after``."""
        return min(map(self._earliest, self._gaps(uid, after)), default=None)

    def _gaps(self, uid: str, after: int) -> Iterator[range]:
        place = bisect.bisect_right(self._numbers, after)
        for run in self._runs.get(uid, ()):
            if place < run.start:
                yield range(place, run.start)
            place = max(place, run.stop)
        if place < len(self._numbers):
            yield range(place, len(self._numbers))

    def _earliest(self, places: range) -> int:
        # Two readers may have had clocks that did not agree.
        return min(self._moments[place] for place in (places[:1] if self._is_in_time else places))

    def _latest(self, places: range) -> int:
        return max(self._moments[place] for place in (places[-1:] if self._is_in_time else places))
