"""When a node had each of its cards, and when what is free of a card was not for use, and why."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.ledger.buckets import Bucket, FreeState
from gpufleet.ledger.granted_parts import card_of
from gpufleet.ledger.node_hour import LedgerDevice
from gpufleet.ledger.sightings import Sightings
from gpufleet.ledger.spans import Span, joined, within
from gpufleet.ledger.versions import DevicesVersion, NodeVersion
from gpufleet.model.identifiers import DeviceId, NodeName, QueueName

ReportSpans = Sequence[tuple[Span, DevicesVersion]]


class Reserved(msgspec.Struct, frozen=True):
    """A card that is kept for work of a queue for some time."""

    card: DeviceId
    queue: QueueName
    span: Span


def report_spans(sightings: Sightings, reports: Iterable[DevicesVersion]) -> ReportSpans:
    """The time for which each report of a node was the newest one of its object."""
    by_uid: dict[str, list[DevicesVersion]] = defaultdict(list)
    for one in reports:
        by_uid[one.uid].append(one)
    return [found for uid in sorted(by_uid) for found in _from_creation(sightings.spans(tuple(by_uid[uid])))]


def _from_creation(spans: ReportSpans) -> ReportSpans:
    """The first version that was seen stands for the time since the object was made."""
    if not spans or spans[0][1].created_us is None:
        return spans
    (span, report), *others = spans
    return [(_since(span, report.created_us), report), *others]


def _since(span: Span, at_us: int | None) -> Span:
    """The span, begun at an earlier moment where one is told."""
    return span if at_us is None else Span(min(span.from_us, at_us), span.until_us)


def cards(reports: ReportSpans, life: Span) -> Iterator[LedgerDevice]:
    """Each card for the time in which the node's reports have it."""
    there: dict[DeviceId, list[Span]] = defaultdict(list)
    for span, report in reports:
        for card in sorted({card_of(device.id) for device in report.devices}):
            there[card].append(within(span, life))
    for card in sorted(there):
        yield from (LedgerDevice(card, span) for span in joined(there[card]))


def reservations(sightings: Sightings) -> dict[NodeName, list[Reserved]]:
    """What is kept on each node."""
    found: dict[NodeName, list[Reserved]] = defaultdict(list)
    for versions in sightings.queues():
        for span, queue in sightings.spans(versions):
            for place in queue.places:
                found[place.node].append(Reserved(card_of(place.device), queue.queue, span))
    return found


def free_states(
    versions: Iterable[tuple[Span, NodeVersion]],
    reports: ReportSpans,
    reserved: Iterable[Reserved],
    life: Span,
) -> Iterator[FreeState]:
    """The states of a node's free parts, in order."""
    states: dict[tuple[DeviceId, Bucket, str], list[Span]] = defaultdict(list)
    for span, version in versions:
        if version.joins:
            states[WHOLE_NODE, Bucket.JOINING, ""].append(_since(span, version.joins_since_us))
        if version.drains:
            states[WHOLE_NODE, Bucket.DRAINING, ""].append(_since(span, version.drains_since_us))
    for span, report in reports:
        for device in report.devices:
            if device.ill:
                states[card_of(device.id), Bucket.OUT, device.ill].append(_since(span, device.ill_since_us))
    for one in reserved:
        states[one.card, Bucket.RESERVED, one.queue].append(one.span)
    # In order, so that logs that saw the same give the same bytes.
    for (card, bucket, reason), spans in sorted(states.items()):
        for span in joined(within(span, life) for span in spans):
            yield FreeState(card or None, bucket, span, reason)


WHOLE_NODE = DeviceId("")
"""Stands for all cards of a node while states are put together."""
