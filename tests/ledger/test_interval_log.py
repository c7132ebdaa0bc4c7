"""Intervals follow from what was seen, in whatever order, how often and by how many readers it was seen.

A small world with a known truth gives the versions of its objects; what the log makes of them is looked at
once a minute, between any two changes, and compared with that truth.
"""

import random
from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec
import pytest

from gpufleet.ledger.buckets import Bucket, BusySpan
from gpufleet.ledger.interval_log import IntervalLog, Intervals, encoded
from gpufleet.ledger.node_hour import HOUR_US, NodeRecords, account
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceUnit
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import (
    DeviceHolder,
    DeviceState,
    DevicesVersion,
    Followed,
    Gone,
    KeptPlace,
    Listed,
    NodeVersion,
    ObjectKind,
    Observation,
    PodVersion,
    QueueVersion,
    Sampled,
)
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName

START = 1_790_000 * HOUR_US
MINUTE_US = HOUR_US // 60
MINUTES = 60
NODES = tuple(NodeName(f"node-{number}") for number in range(2))
SEEDS = range(100)
WHOLE = Fraction(1)


def moment(minute: int) -> int:
    return START + minute * MINUTE_US


def cards(node: NodeName) -> tuple[DeviceId, ...]:
    return tuple(DeviceId(f"GPU-{node}-{number}") for number in range(2))


class Plan(msgspec.Struct):
    """What happens to a pod, in minutes; None for what does not."""

    uid: PodUid
    node: NodeName
    card: DeviceId
    bound: int
    end: int
    gone: int
    started: int | None
    ready: int | None
    has_probe: bool
    deletion: int | None
    is_terminal: bool
    gang: str = ""
    whole: int | None = None

    def phase(self, minute: int) -> Bucket | None:
        """The bucket after that minute has begun."""
        if self.deletion is not None and self.deletion <= minute:
            return Bucket.ENDING
        if self.whole is None or minute < self.whole:
            return Bucket.WAITING
        if self.started is None or minute < self.started:
            return Bucket.STARTING
        if self.has_probe and (self.ready is None or minute < self.ready):
            return Bucket.LOADING
        return None

    def version(self, minute: int, number: int) -> PodVersion:
        """The pod as the server shows it then."""

        def come(at: int | None) -> int | None:
            return moment(at) if at is not None and at <= minute else None

        return PodVersion(
            self.uid,
            number,
            moment(minute),
            namespace="team",
            name=self.uid,
            queue=QueueName("research"),
            node=self.node,
            bound_us=moment(self.bound),
            epoch=1,
            devices=(GrantedDevice(self.card),),
            gang=self.gang,
            gang_members=2 if self.gang else 1,
            started_us=come(self.started),
            ready_us=come(self.ready),
            has_readiness_probe=self.has_probe,
            deletion_us=come(self.deletion),
            ended_us=come(self.end) if self.is_terminal else None,
        )


class World:
    """Two nodes with two cards each over an hour."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.pods = [pod for node in NODES for card in cards(node) for pod in self.plans(node, card)]
        self.pair_up()
        spans = self.spans
        self.cordoned = {node: spans() for node in NODES}
        self.ill = {card: spans() for node in NODES for card in cards(node)}
        self.kept = {card: spans() for node in NODES for card in cards(node)}
        self.list_minutes = sorted({self.draw.randrange(MINUTES) for _ in range(6)} | {MINUTES})
        self.seen = list(self.observations())

    def plans(self, node: NodeName, card: DeviceId) -> Iterator[Plan]:
        """Pods on one card, one after the other."""
        draw = self.draw
        minute = draw.randrange(10)
        while minute < MINUTES - 2:
            end = min(MINUTES - 1, minute + 1 + draw.randrange(25))
            started = minute + draw.randrange(6)
            ready = started + draw.randrange(6)
            deletion = draw.randrange(minute, end + 1)
            yield Plan(
                PodUid(f"{card}-{minute}"),
                node,
                card,
                minute,
                end,
                min(MINUTES, end + draw.randrange(4)),
                started=started if started < end else None,
                ready=ready if ready < end else None,
                has_probe=draw.random() < 0.5,
                deletion=deletion if draw.random() < 0.4 else None,
                is_terminal=draw.random() < 0.6,
                whole=minute,
            )
            minute = end + draw.randrange(8)

    def pair_up(self) -> None:
        """Some pods are gangs of two, which are whole while both hold."""
        alone = self.draw.sample(self.pods, len(self.pods) // 2 * 2)
        for number, (one, other) in enumerate(zip(alone[::2], alone[1::2], strict=True)):
            if self.draw.random() < 0.5:
                one.gang = other.gang = f"gang-{number}"
                both = max(one.bound, other.bound)
                is_whole = both < min(one.end, other.end)
                one.whole = other.whole = both if is_whole else None
        for pod in self.pods:
            if not pod.is_terminal:
                pod.gone = pod.end

    def spans(self) -> tuple[tuple[int, int], ...]:
        """Up to two times that do not touch."""
        cuts = sorted(self.draw.sample(range(1, MINUTES), 4))
        return ((cuts[0], cuts[1]), (cuts[2], cuts[3]))[: self.draw.randrange(3)]

    def holders(self, node: NodeName, minute: int) -> list[Plan]:
        """The pods that hold cards of a node then."""
        return [pod for pod in self.pods if pod.node == node and pod.bound <= minute < pod.end]

    def observations(self) -> Iterator[Observation]:
        """Each version of each object, numbered by time."""
        number = 1
        shown: dict[str, object] = {}
        for minute in range(MINUTES + 1):
            for seen in self.now(minute):
                key = f"{type(seen).__name__} {seen.uid}"
                state = msgspec.structs.replace(seen, at_us=0, number=0)
                if shown.get(key) == state:
                    continue
                shown[key] = state
                number += 1
                yield msgspec.structs.replace(seen, number=number)
            if minute in self.list_minutes:
                number += 1
                there = frozenset(pod.uid for pod in self.pods if pod.bound <= minute < pod.end)
                yield Listed(ObjectKind.POD, number, moment(minute), there)

    def now(self, minute: int) -> Iterator[PodVersion | NodeVersion | DevicesVersion | QueueVersion | Gone]:
        """All objects as they are then."""
        at = moment(minute)
        for pod in self.pods:
            if pod.bound <= minute < pod.gone:
                yield pod.version(minute, 0)
            if pod.gone <= minute:
                yield Gone(ObjectKind.POD, pod.uid, 0, moment(pod.gone))
        for node in NODES:
            yield NodeVersion(f"uid-{node}", 0, at, node, START, drains=is_in(self.cordoned[node], minute))
            states = [
                DeviceState(card, ill="unhealthy" if is_in(self.ill[card], minute) else "")
                for card in cards(node)
            ]
            held = [
                DeviceHolder(pod.uid, GrantedDevice(pod.card))
                for pod in self.holders(node, minute)
                if pod.started is not None and pod.started <= minute
            ]
            yield DevicesVersion(f"report-{node}", 0, at, node, tuple(states), tuple(held))
        places = [
            KeptPlace(node, card) for node in NODES for card in cards(node) if is_in(self.kept[card], minute)
        ]
        yield QueueVersion("uid-research", 0, at, QueueName("research"), tuple(places))


def is_in(spans: Iterable[tuple[int, int]], minute: int) -> bool:
    return any(begin <= minute < end for begin, end in spans)


def log_of(seen: Iterable[Observation]) -> IntervalLog:
    log = IntervalLog()
    for one in seen:
        log.take(one)
    return log


def of_node(intervals: Intervals, node: NodeName) -> NodeRecords:
    return next(one for one in intervals.nodes if one.node == node)


def shaken(world: World) -> list[Observation]:
    """The observations in any order, some of them twice, the second time with a later moment."""
    again = world.draw.choices(world.seen, k=len(world.seen) // 2)
    late = [
        msgspec.structs.replace(one, at_us=one.at_us + 7 * MINUTE_US)
        for one in again[::2]
        if not isinstance(one, Followed | Sampled)
    ]
    both = [*world.seen, *again, *late]
    world.draw.shuffle(both)
    return both


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_derived_is_what_happened(seed: int) -> None:
    world = World(seed)
    intervals = log_of(world.seen).intervals()
    for node in NODES:
        records = of_node(intervals, node)
        for minute in range(MINUTES):
            at = moment(minute) + MINUTE_US // 2
            found = {
                (one.device, one.pod_uid, one.phase(at), one.part)
                for one in records.holdings
                if one.span.covers(at)
            }
            assert found == {
                (pod.card, pod.uid, pod.phase(minute), Fraction(1)) for pod in world.holders(node, minute)
            }, minute
            states = {
                (one.device, one.bucket, one.reason) for one in records.free_states if one.span.covers(at)
            }
            assert states == expected_states(world, node, minute), minute
            assert {one.id for one in records.devices if one.span.covers(at)} == set(cards(node))


def expected_states(world: World, node: NodeName, minute: int) -> set[tuple[DeviceId | None, Bucket, str]]:
    found: set[tuple[DeviceId | None, Bucket, str]] = set()
    if is_in(world.cordoned[node], minute):
        found.add((None, Bucket.DRAINING, ""))
    for card in cards(node):
        if is_in(world.ill[card], minute):
            found.add((card, Bucket.OUT, "unhealthy"))
        if is_in(world.kept[card], minute):
            found.add((card, Bucket.RESERVED, "research"))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_one_node_after_the_other_has_the_same_intervals(seed: int) -> None:
    log = log_of(World(seed).seen)
    whole, each = log.intervals(), list(log.by_node().each())
    assert tuple(node.records for node in each) == whole.nodes
    pods = {pod.uid: pod for pod in whole.pods}
    for node in each:
        assert node.pods == {one.pod_uid: pods[one.pod_uid] for one in node.records.host_holdings}


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffled_doubled_and_late_observations_give_the_same_bytes(seed: int) -> None:
    world = World(seed)
    expected = encoded(log_of(world.seen).intervals())
    assert encoded(log_of(shaken(world)).intervals()) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_two_readers_together_and_a_restart_give_the_same_bytes(seed: int) -> None:
    world = World(seed)
    expected = encoded(log_of(world.seen).intervals())
    first, second = IntervalLog(), IntervalLog()
    for one in shaken(world):
        for log in world.draw.choice([(first,), (second,), (first, second)]):
            log.take(one)
    first.merge(second)
    assert encoded(first.intervals()) == expected
    assert encoded(log_of(first.seen()).intervals()) == expected


def half_of(world: World) -> list[Observation]:
    """What is left where half of all versions and deletions are lost.

    Lists are not lost, since a reader that has lost something lists anew. A deletion that is seen comes with
    the last version of its object.
    """
    kept = [one for one in world.seen if isinstance(one, Listed | NodeVersion) or world.draw.random() < 0.5]
    last = {one.uid: one for one in world.seen if isinstance(one, PodVersion)}
    return [*kept, *(last[PodUid(one.uid)] for one in kept if isinstance(one, Gone))]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_lost_makes_estimates_and_nothing_else_wrong(seed: int) -> None:
    """A pod that was seen bound is held at least as long as it was, and what is too much is an estimate."""
    world = World(seed)
    kept = half_of(world)
    intervals = log_of(kept).intervals()
    known = {one.uid for one in kept if isinstance(one, PodVersion)}
    for node in NODES:
        records = of_node(intervals, node)
        for minute in range(MINUTES):
            at = moment(minute) + MINUTE_US // 2
            held = {one.pod_uid: one for one in records.holdings if one.span.covers(at)}
            true = {pod.uid for pod in world.holders(node, minute)}
            assert true & known <= held.keys(), minute
            assert all(held[uid].is_estimated(at) for uid in held.keys() - true), minute
    (last,) = [one for one in kept if isinstance(one, Listed) and one.at_us == moment(MINUTES)]
    still_open = {
        one.pod_uid for node in intervals.nodes for one in node.holdings if one.span.until_us is None
    }
    assert still_open <= last.uids


@pytest.mark.parametrize("seed", range(20))
def test_an_hour_of_what_was_derived_adds_up(seed: int) -> None:
    world = World(seed)
    log = log_of(shaken(world))
    price = Price("p", PriceScope(), PriceUnit.GPU_HOUR, 3_000_001, "USD", START)
    for records in log.intervals().nodes:
        hour = account(records, START, PriceBook([price]))
        assert sum(row.quantity for row in hour.rows) == 2 * 1_000 * HOUR_US
        assert sum(row.amount_micro or 0 for row in hour.rows) == 6_000_002


@pytest.mark.parametrize("seed", range(50))
def test_what_is_forgotten_says_nothing_about_later_time(seed: int) -> None:
    world = World(seed)
    log = log_of(world.seen)
    before = log.intervals()
    log.forget(moment(30))
    after = log.intervals()
    for node in NODES:
        for minute in range(30, MINUTES):
            at = moment(minute) + MINUTE_US // 2
            assert _at(of_node(after, node), at) == _at(of_node(before, node), at)


def _at(records: NodeRecords, at: int) -> tuple[object, ...]:
    held = {(one.device, one.pod_uid, one.phase(at)) for one in records.holdings if one.span.covers(at)}
    states = {(one.device, one.bucket, one.reason) for one in records.free_states if one.span.covers(at)}
    return held, states, {one.id for one in records.devices if one.span.covers(at)}


def pod(name: str, bound: int, device: GrantedDevice, epoch: int = 1, number: int = 10) -> PodVersion:
    return PodVersion(
        PodUid(name),
        number,
        moment(bound),
        node=NODES[0],
        bound_us=moment(bound),
        epoch=epoch,
        devices=(device,),
    )


NODE = NodeVersion("uid", 1, START, NODES[0], START)
CARD = DeviceId("GPU-a")


def held(*seen: Observation) -> dict[str, tuple[Fraction, Span, int | None]]:
    (records,) = log_of([NODE, *seen]).intervals().nodes
    return {str(one.pod_uid): (one.part, one.span, one.seen_until_us) for one in records.holdings}


def test_a_grant_of_a_newer_leader_holds_and_the_older_one_gives_way() -> None:
    card = GrantedDevice(CARD)
    assert held(pod("old", 1, card, epoch=1), pod("new", 3, card, epoch=2)) == {
        "old": (WHOLE, Span(moment(1), moment(3)), moment(1)),
        "new": (WHOLE, Span(moment(3)), None),
    }
    later = held(pod("new", 1, card, epoch=2), pod("old", 3, card, epoch=1))
    assert later == {"new": (WHOLE, Span(moment(1)), None)}


def test_a_later_grant_of_the_same_leader_proves_an_end_that_was_not_seen() -> None:
    card = GrantedDevice(CARD)
    assert held(pod("first", 1, card), pod("second", 9, card))["first"] == (
        WHOLE,
        Span(moment(1), moment(9)),
        moment(1),
    )


def test_shares_beside_each_other_prove_nothing() -> None:
    half = GrantedDevice(CARD, GrantKind.SHARE, 500)
    assert held(pod("first", 1, half), pod("second", 9, half)) == {
        "first": (Fraction(1, 2), Span(moment(1)), None),
        "second": (Fraction(1, 2), Span(moment(9)), None),
    }


def test_parts_of_a_card_follow_from_the_report_of_its_node() -> None:
    """A slice of an A100 of 40 GB, one of four replicas, and a share of time with more than its memory."""
    product = "NVIDIA A100-SXM4-40GB"
    states = (
        DeviceState(DeviceId("GPU-mig"), product, 40_000),
        *(DeviceState(DeviceId(f"GPU-slots::{number}"), product, 40_000) for number in range(4)),
        DeviceState(DeviceId("GPU-share"), product, 40_000),
    )
    report = DevicesVersion("r", 5, moment(0), NODES[0], states)
    slice_ = GrantedDevice(DeviceId("GPU-mig"), GrantKind.MIG, 428, None, "3g.20gb", 4)
    slot = GrantedDevice(DeviceId("GPU-slots::2"))
    share = GrantedDevice(DeviceId("GPU-share"), GrantKind.SHARE, 250, 30_000)
    found = held(report, pod("mig", 1, slice_), pod("slot", 1, slot), pod("share", 1, share))
    assert {name: part for name, (part, _, _) in found.items()} == {
        "mig": Fraction(1, 2),
        "slot": Fraction(1, 4),
        "share": Fraction(3, 4),
    }


def test_a_pod_of_another_scheduler_holds_what_the_report_says() -> None:
    foreign = msgspec.structs.replace(pod("foreign", 2, GrantedDevice(CARD)), devices=())
    state = DeviceState(CARD)
    report = DevicesVersion(
        "r", 20, moment(4), NODES[0], (state,), (DeviceHolder(foreign.uid, GrantedDevice(CARD)),)
    )
    assert held(foreign, report) == {"foreign": (WHOLE, Span(moment(2)), None)}


def test_the_end_of_a_node_ends_what_was_on_it() -> None:
    gone = Gone(ObjectKind.NODE, "uid", 30, moment(12))
    assert held(pod("left", 2, GrantedDevice(CARD)), gone) == {
        "left": (WHOLE, Span(moment(2), moment(12)), moment(2))
    }


def test_a_node_of_the_same_name_is_another_node() -> None:
    gone = Gone(ObjectKind.NODE, "uid", 30, moment(12))
    second = NodeVersion("uid-2", 40, moment(20), NODES[0], moment(20), priced_as=PricedNode(zone="b"))
    late = pod("late", 21, GrantedDevice(CARD), number=50)
    first, other = log_of([NODE, gone, second, late]).intervals().nodes
    assert (first.span, first.holdings) == (Span(START, moment(12)), ())
    assert [one.pod_uid for one in other.holdings] == ["late"]
    assert other.priced_as.zone == "b"


def test_of_two_measurements_that_begin_alike_the_longer_one_counts() -> None:
    log = log_of([NODE, pod("p", 1, GrantedDevice(CARD))])
    short = BusySpan(CARD, PodUid("p"), Span(moment(1), moment(2)), 900_000)
    long = BusySpan(CARD, PodUid("p"), Span(moment(1), moment(3)), 100_000)
    for span in (long, short, long):
        log.measure(span)
    (records,) = log.intervals().nodes
    assert records.busy == (long,)


def test_a_pod_of_which_only_late_restarts_were_seen_is_not_called_starting() -> None:
    late = msgspec.structs.replace(
        pod("p", 1, GrantedDevice(CARD)), was_started=True, has_readiness_probe=True, ready_us=moment(30)
    )
    (records,) = log_of([NODE, late]).intervals().nodes
    (holding,) = records.holdings
    assert [holding.phase(moment(minute)) for minute in (1, 29, 31)] == [None, None, None]
    first = msgspec.structs.replace(late, number=9, started_us=moment(4), ready_us=None)
    (records,) = log_of([NODE, first, late]).intervals().nodes
    (holding,) = records.holdings
    assert holding.phase(moment(3)) == Bucket.STARTING


def test_only_lists_and_what_was_followed_tell_until_when_all_is_known() -> None:
    """A kubelet whose clock is ahead does not."""
    log = log_of([NODE, pod("p", 50, GrantedDevice(CARD)), Gone(ObjectKind.POD, "p", 60, moment(55))])
    assert log.known_until_us() == 0
    log.take(Listed(ObjectKind.POD, 30, moment(12), frozenset()))
    assert log.known_until_us() == moment(12)
    log.take(Followed(ObjectKind.POD, moment(12), moment(20)))
    assert log.known_until_us() == moment(20)
