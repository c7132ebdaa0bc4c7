"""What is written of a card while a period with a layout of its own is open, and after it.

    period opens -> the layout before is noted, the other one is written -> period ends -> the layout before
    is written -> the card has it -> both words go

A layout that a person or another program wrote is left alone, and so is a card that was given another one
meanwhile. Instances in use are the agent's concern: it waits for their end.
"""

from collections import Counter

import msgspec

from gpufleet.mig.cards import MigCard
from gpufleet.mig.counted import counted_layout
from gpufleet.mig.demand import ManagedCard
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.wanted import LayoutState, layout_texts, read_place
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout

PERIODS_ANNOTATION = "gpufleet.io/mig-layout-periods"
"""On a Node, written by the operator with the layouts that it wrote for a period."""

Texts = tuple[str, ...] | None


class PeriodRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A layout that was written for a period of a policy, and the one that the card had before.

    ``ends``: the period is over, and the layout is the one before.
    """

    policy: str
    layout: Texts
    before: Texts
    ends: bool = False


class OpenPeriod(msgspec.Struct, frozen=True):
    """A period that is open: of which policy, and the profiles of a card; none for a whole card."""

    policy: str
    instances: tuple[str, ...]


class PeriodWrite(msgspec.Struct, frozen=True):
    """What is to be written of a card: an unset ``wish`` and a ``record`` of None are taken away."""

    card: DeviceId
    wish: Layout | msgspec.UnsetType | None
    record: PeriodRecord | None


Records = dict[DeviceId, PeriodRecord]
_RECORDS = msgspec.json.Decoder(Records)


def read_records(text: str) -> Records:
    """The records of an annotation; none for no text. Raises MigPlanError."""
    if not text:
        return {}
    try:
        found = _RECORDS.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        expected = "what the operator writes"
        raise MigPlanError(f"no records: {error}", field=PERIODS_ANNOTATION, expected=expected) from None
    for one in found.values():
        _layout(one.layout), _layout(one.before)
    return found


def write_records(records: Records) -> str:
    """The annotation's text."""
    return msgspec.json.encode(records).decode()


def period_write(
    card: ManagedCard, record: PeriodRecord | None, period: OpenPeriod | None
) -> PeriodWrite | None:
    """What is to be written of a card now; None for nothing.

    Raises InputError for instances that its board does not have.
    """
    id_ = card.card.id
    if record is not None and (
        isinstance(card.wish, msgspec.UnsetType) or card.wish != _layout(record.layout)
    ):
        # Another layout was written meanwhile: from now on it is its writer's.
        return PeriodWrite(id_, card.wish, None)
    if period is None:
        return None if record is None else _way_back(card, record)
    if record is None and (not card.is_followed or card.is_of_others):
        return None
    if record is not None and not record.ends and _profiles(record.layout) == Counter(period.instances):
        return None
    now = card.as_wished()
    before = (layout_texts(now.layout) if now.mig_enabled else None) if record is None else record.before
    if record is None and _profiles(before) == Counter(period.instances):
        return None
    wish = _wish(card.card, period)
    return PeriodWrite(id_, wish, PeriodRecord(period.policy, layout_texts(wish), before))


def _way_back(card: ManagedCard, record: PeriodRecord) -> PeriodWrite | None:
    if not record.ends:
        after = msgspec.structs.replace(record, layout=record.before, ends=True)
        return PeriodWrite(card.card.id, _layout(record.before), after)
    if card.state in {LayoutState.SUCCESS, LayoutState.FAILED}:
        return PeriodWrite(card.card.id, msgspec.UNSET, None)
    return None


def _wish(card: MigCard, period: OpenPeriod) -> Layout | None:
    """The layout: around what is in use where that is possible, else one for which its end is waited for."""
    if not period.instances:
        return None
    counts = Counter(period.instances)
    try:
        return counted_layout(card, counts)
    except MigPlanError:
        return counted_layout(msgspec.structs.replace(card, instances=()), counts)


def _layout(texts: Texts) -> Layout | None:
    return None if texts is None else tuple(sorted(map(read_place, texts)))


def _profiles(texts: Texts) -> Counter[str]:
    """How many instances of each profile; none of a whole card."""
    return Counter(one.profile for one in _layout(texts) or ())
