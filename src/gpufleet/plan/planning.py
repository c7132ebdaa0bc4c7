"""The search for nodes in which the engine has the last word.

First the engine is given an empty fleet of one type after the other, and a few units of each kind of waiting
work: this shows which work which types help. ``purchase_search`` proposes a cheap set by sizes, and the
engine judges it in the fleet as it is. With more than enough nodes it has shown before what cannot be helped
at all. For the rest, which gangs or relations keep from places that sizes promise, nodes are added; then from
each type as many are taken away as can be, since running work ends and nodes have room.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import PodUid
from gpufleet.model.phrases import counted
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from gpufleet.plan.instance_types import NODE_COUNT_MAX, InstanceType
from gpufleet.plan.node_names import beginning
from gpufleet.plan.purchase_search import cheapest_bins, cost_of
from gpufleet.plan.small_purchases import Bin, Item
from gpufleet.plan.waiting_work import free_gpus_milli, gpus_milli, items_of, late_pods, on_time
from gpufleet.whatif.course import Course, before_evictions

MENDS_MAX = 8
"""How often nodes are added to a set that does not start everything; then more than enough are taken."""

SPARE = 1
"""Nodes beyond the number by sizes when a type is tried: gangs and relations may need one more."""

OTHER_WAYS_MAX = 3
"""Types whose purchase alone is judged too, the cheapest first: to compare, not to choose from a list."""

ALIKE_MAX = 2
"""Units of work that are alike, with which a type is tried: what helps two of them helps a hundred."""

Say = Callable[[str], None]
OTHER_WAYS_PODS_MAX = 1_000
"""With more pods that wait no type is judged alone: each judgement of a large fleet takes seconds."""

Judge = Callable[[Sequence[int]], Course]
"""The course of things with so many nodes more of each type."""

Attempt = Callable[[Sequence[int], Collection[PodUid], Collection[PodUid]], Course]
"""The course of things on so many nodes of each type and no others, for these pods of those that wait, and
without the others, which come last. Members of gangs start one by one: a gang may need several types.
"""


class Found(msgspec.Struct, frozen=True):
    """What was found: how many nodes of each type, the course with them, and what they do.

    ``late`` are the pods that wait too long without a purchase, ``helped`` those that start in time with it.
    ``base`` is the course without a purchase, and ``ample`` that with more than enough nodes, which says why
    the others wait all the same.
    """

    counts: tuple[int, ...]
    base: Course
    course: Course
    ample: Course
    late: tuple[PodUid, ...]
    helped: tuple[PodUid, ...]
    alone: tuple[tuple[int, int, int], ...]


class Planning:
    """One search: the types, the moment by which work shall start, the judge, and how types are tried."""

    def __init__(
        self, types: tuple[InstanceType, ...], by_us: int, judge: Judge, attempt: Attempt, say: Say
    ) -> None:
        self.types = types
        self.by_us = by_us
        self.judge = judge
        self.attempt = attempt
        self.say = say
        self.bins = [Bin(one.price_micro, one.most) for one in types]
        self.pods: dict[PodUid, Pod] = {}
        self._may_run: list[set[Shape]] = [set() for _ in types]
        self._base: Course
        self._ample: Course
        self._starters: frozenset[PodUid]
        self._last: tuple[tuple[int, ...], Course] | None = None

    def found(self) -> Found:
        """The cheapest set of nodes that was found."""
        nothing = [0] * len(self.types)
        base = self.judge(nothing)
        late = late_pods(base, self.by_us)
        self.pods = {uid: base.meanings[uid] for uid in late if uid in base.meanings}
        self._base = base
        self._starters = frozenset(before_evictions(uid) for uid in base.meanings if base.start_of(uid))
        enough = self._enough(self.pods)
        self._try_types()
        wanted, counts, course = self._all_at_once(late, enough)
        if not wanted:
            wanted, ample = self._can_be_helped(enough)
            if not wanted:
                return Found(tuple(nothing), base, base, ample, tuple(late), (), ())
            self._ample = ample
            counts, course = self._judged(self._proposed(wanted, enough), wanted, enough)
        counts, course = self._reduced(counts, course, wanted)
        started = tuple(on_time(course, wanted, self.by_us))
        alone = self._other_ways(wanted, enough, cost_of(counts, self.bins))
        return Found(tuple(counts), base, course, self._ample, tuple(late), started, alone)

    def _all_at_once(
        self, late: Sequence[PodUid], enough: Sequence[int]
    ) -> tuple[list[PodUid], list[int], Course]:
        """The set that sizes propose for all that waits, where it starts all of it and ends nothing.

        Then more than enough nodes have nothing to add. A judgement of a large fleet takes seconds.
        """
        wanted = list(self.pods)
        if not wanted or len(wanted) < len(late) or not all(map(self._is_able, wanted)):
            return [], [], self._base
        counts = self._proposed(wanted, enough)
        course = self._course_of(counts)
        if len(on_time(course, wanted, self.by_us)) < len(wanted) or course.evictions or self._base.evictions:
            return [], [], self._base
        self._ample = course
        return wanted, counts, course

    def _course_of(self, counts: Sequence[int]) -> Course:
        """The judgement of a set; the last one is remembered."""
        if self._last is None or self._last[0] != tuple(counts):
            self.say("the engine judges " + counted(sum(counts), "node"))
            self._last = tuple(counts), self.judge(counts)
        return self._last[1]

    def _enough(self, uids: Collection[PodUid]) -> list[int]:
        """More nodes of each type than these pods could need, were only that type bought."""
        enough = []
        for index, one in enumerate(self.types):
            items = items_of(self.pods, uids, (one,), lambda *_: True)
            fitting = [item for item in items if item.sizes[0] is not None]
            needed = cheapest_bins(fitting, [Bin(1)]) or (0,)
            count = needed[0] + SPARE if fitting else 0
            most = self.bins[index].most
            enough.append(min(count, NODE_COUNT_MAX if most is None else most))
        return enough

    def _try_types(self) -> None:
        """Find out which shapes each type alone helps, by a few units of each kind of work."""
        left_out = self._beyond_a_few(self.pods)
        tried = [uid for uid in self.pods if uid not in left_out]
        enough = self._enough(tried)
        for index, one in enumerate(self.types):
            if not enough[index]:
                continue
            self.say(f"with {one.name} ({index + 1} of {counted(len(self.types), 'type')})")
            counts = [count if at == index else 0 for at, count in enumerate(enough)]
            started = on_time(self.attempt(counts, frozenset(tried), left_out), tried, self.by_us)
            self._may_run[index] |= {self.pods[uid].shape for uid in started}

    def _beyond_a_few(self, among: Iterable[PodUid]) -> frozenset[PodUid]:
        """The pods of the units of which enough others are alike."""
        units: dict[object, list[PodUid]] = defaultdict(list)
        for uid in among:
            units[self.pods[uid].workload].append(uid)
        seen: Counter[object] = Counter()
        left_out: list[PodUid] = []
        for uids in units.values():
            pods = [self.pods[uid] for uid in uids]
            kind = (pods[0].queue, pods[0].priority, frozenset(Counter(pod.shape for pod in pods).items()))
            seen[kind] += 1
            left_out += uids if seen[kind] > ALIKE_MAX else ()
        return frozenset(left_out)

    def _can_be_helped(self, enough: Sequence[int]) -> tuple[list[PodUid], Course]:
        """The pods that start in time with more than enough nodes, and the course of things with these.

        What starts on no empty fleet of one type, since it needs work that runs beside it, is tried here by a
        few units of each kind. What they show is then true for all of that kind.
        """
        # Twice, because what a few units show in the first judgement is true for all of their kind in the
        # second.
        for _ in range(2):
            unable = [uid for uid in self.pods if not self._is_able(uid)]
            self.say("with more than enough nodes")
            course = self.judge(self._more_than_enough(enough, unable))
            together = on_time(course, self.pods, self.by_us)
            for uid, node in together.items():
                self._allow_where_it_runs(uid, node)
            if not any(self._is_able(uid) and uid not in together for uid in unable):
                break
        return [uid for uid in self.pods if uid in together], course

    def _is_able(self, uid: PodUid) -> bool:
        """Whether its like was seen to start with some type."""
        return any(self.pods[uid].shape in shapes for shapes in self._may_run)

    def _more_than_enough(self, enough: Sequence[int], unable: Sequence[PodUid]) -> list[int]:
        """More than enough of the types that would be bought. Of each other as many as a few units of what is
        unable need, and one at least for the reasons why work waits.
        """
        able = [uid for uid in self.pods if self._is_able(uid)]
        bought = cheapest_bins(self._items(able), self.bins) or enough
        left_out = self._beyond_a_few(unable)
        few = self._enough([uid for uid in unable if uid not in left_out])
        return [
            limit if count else max(some, min(limit, SPARE))
            for count, limit, some in zip(bought, enough, few, strict=True)
        ]

    def _allow_where_it_runs(self, uid: PodUid, node: str) -> None:
        """A pod may run on the type of the node that it got."""
        for index, one in enumerate(self.types):
            if beginning(node) == one.node_names:
                # Some work is helped by several types together, and by none alone.
                self._may_run[index].add(self.pods[uid].shape)

    def _items(self, uids: Iterable[PodUid]) -> list[Item]:
        known = frozenset[Shape]().union(*self._may_run)
        # The shapes of work that would lose its place were not tried: the engine judges where it may run.
        return items_of(
            self._base.meanings,
            uids,
            self.types,
            lambda shape, index: shape in self._may_run[index] or shape not in known,
        )

    def _proposed(self, wanted: Sequence[PodUid], enough: Sequence[int]) -> list[int]:
        counts = cheapest_bins(self._items(wanted), self.bins)
        return list(enough if counts is None else counts)

    def _judged(
        self, counts: list[int], wanted: Sequence[PodUid], enough: Sequence[int]
    ) -> tuple[list[int], Course]:
        """A set of nodes with which all that is wanted starts, beginning from a proposal."""
        for _ in range(MENDS_MAX):
            course = self._course_of(counts)
            missing = self._missing(course, wanted)
            if not missing:
                return counts, course
            more = cheapest_bins(self._items(missing), self._left(counts))
            if more is None or not any(more):
                break
            counts = [count + one for count, one in zip(counts, more, strict=True)]
        # Sizes promise room that gangs or relations do not get: more than enough is bought, and then taken
        # away.
        return list(enough), self.judge(enough)

    def _left(self, counts: Sequence[int]) -> list[Bin]:
        """The bins that can still be had."""
        return [
            one if one.most is None else Bin(one.price, one.most - count)
            for one, count in zip(self.bins, counts, strict=True)
        ]

    def _missing(self, course: Course, wanted: Sequence[PodUid]) -> list[PodUid]:
        """What does not start, and what would lose its place to what starts, though more nodes spare it."""
        touched = self._starters.union(map(before_evictions, course.evictions)).difference(self.pods)
        kept = on_time(self._ample, on_time(self._base, touched, self.by_us), self.by_us)
        needed = [*wanted, *sorted(kept)]
        started = on_time(course, needed, self.by_us)
        return [uid for uid in needed if uid not in started]

    def _reduced(
        self, counts: list[int], course: Course, wanted: Sequence[PodUid]
    ) -> tuple[list[int], Course]:
        """Without the nodes that are not needed, the dearest type first."""
        fewest_missing = len(self._missing(course, wanted))
        for index in sorted(range(len(counts)), key=lambda at: -self.bins[at].price):
            least, enough = -1, counts[index]
            while enough - least > 1:
                # The first question is whether one node less will do: mostly it will not.
                tried = enough - 1 if enough == counts[index] else (enough + least) // 2
                fewer = [*counts[:index], tried, *counts[index + 1 :]]
                if tried == enough - 1 == counts[index] - 1 and self._lacks_gpus(fewer, wanted):
                    break
                self.say(f"without {counted(counts[index] - tried, 'node')} of {self.types[index].name}")
                judged = self.judge(fewer)
                if len(self._missing(judged, wanted)) > fewest_missing:
                    if tried == counts[index] - 1:
                        break
                    least = tried
                else:
                    enough, course = tried, judged
            counts = [*counts[:index], enough, *counts[index + 1 :]]
        return counts, course

    def _lacks_gpus(self, counts: Sequence[int], wanted: Sequence[PodUid]) -> bool:
        """Whether all GPUs that are free or bought are fewer than those asked for, so that no judgement is
        needed. True only where nothing ends meanwhile.
        """
        if self.by_us > self._base.now_us or self._ample.evictions or self._base.evictions:
            return False
        return gpus_milli(self._base, wanted) > free_gpus_milli(self._base) + sum(
            count * one.gpus * WHOLE_GPU_MILLI for count, one in zip(counts, self.types, strict=True)
        )

    def _other_ways(
        self, wanted: Sequence[PodUid], enough: Sequence[int], cost: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Index of a type, nodes of it alone, and the pods that start with them; the cheapest few."""
        if len(self.pods) > OTHER_WAYS_PODS_MAX:
            return ()
        ways = []
        for index, one in enumerate(self.types):
            able = [uid for uid in wanted if self.pods[uid].shape in self._may_run[index]]
            items = items_of(self.pods, able, (one,), lambda *_: True)
            needed = cheapest_bins(items, [self.bins[index]])
            if able and needed and needed[0]:
                ways.append((-len(able), needed[0] * one.price_micro, index, able, needed[0]))
        judged = []
        for _, _, index, able, count in sorted(ways, key=lambda way: way[:3])[: OTHER_WAYS_MAX + 1]:
            alone = [count if at == index else 0 for at in range(len(self.types))]
            limits = [limit if at == index else 0 for at, limit in enumerate(enough)]
            counts, course = self._judged(alone, able, limits)
            # Nodes of other types had to come, so this is no way with one type.
            if any(counts[at] for at in range(len(counts)) if at != index):
                continue
            counts, course = self._reduced(counts, course, able)
            started = len(on_time(course, wanted, self.by_us))
            if started and (counts[index] * self.bins[index].price != cost or started != len(wanted)):
                judged.append((index, counts[index], started))
        return tuple(judged[:OTHER_WAYS_MAX])
