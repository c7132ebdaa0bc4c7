"""Which cards are cut anew for pods that wait, and which are made whole again for work on whole cards.

A card that changes counts as if it had the layout that its Node says: so what is on its way is used, not cut
twice, and a process that starts anew decides the same. A layout that something else wrote is left alone.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.mig.cards import CardInstance, MigCard
from gpufleet.mig.plan import MigPlan, Wanted, plan
from gpufleet.mig.steps import Step, layout_after
from gpufleet.mig.wanted import DemandRecord, LayoutState
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout


class DemandRules(msgspec.Struct, frozen=True):
    """When cards are cut anew without a person's word.

    ``patience``: an instance that others give back soon needs no cut. ``settle``: a card that just
    changed stays, so that cards are not cut back and forth. ``idle``: how long no instance of a card may
    have been in use before the card is made whole.
    """

    patience: dt.timedelta = dt.timedelta(seconds=30)
    settle: dt.timedelta = dt.timedelta(minutes=5)
    idle: dt.timedelta = dt.timedelta(minutes=10)


class ManagedCard(msgspec.Struct, frozen=True):
    """A card, and what its Node says of it.

    ``is_followed``: an agent carries out what is written. ``wish`` is what is written; unset for nothing.
    ``state`` is what the agent says of that wish, None as long as it says nothing. ``record`` is what was
    written of it on demand. ``unused_since`` is since when no instance has been in use, as far as is known.
    """

    card: MigCard
    is_followed: bool
    wish: Layout | msgspec.UnsetType | None = msgspec.UNSET
    state: LayoutState | None = None
    record: DemandRecord | None = None
    unused_since: dt.datetime | None = None

    @property
    def changes(self) -> bool:
        """Whether the card is on its way to what is written."""
        if not self.is_followed or isinstance(self.wish, msgspec.UnsetType):
            return False
        is_reached = self.wish == (self.card.layout if self.card.mig_enabled else None)
        return not is_reached and self.state is not LayoutState.FAILED

    @property
    def is_of_others(self) -> bool:
        """Whether a layout is written that was not chosen on demand."""
        written = not isinstance(self.wish, msgspec.UnsetType)
        return written and (self.record is None or self.record.layout != self.wish)

    def may_change(self, rules: DemandRules, now: dt.datetime) -> bool:
        """Whether another layout may be chosen for it now."""
        if not self.is_followed or self.changes or self.is_of_others or self.state is LayoutState.FAILED:
            return False
        return self.record is None or now - self.record.since >= rules.settle

    def as_wished(self) -> MigCard:
        """The card as it is, or as it will be once its change is over."""
        if not self.changes or isinstance(self.wish, msgspec.UnsetType):
            return self.card
        held = set(self.card.held)
        instances = tuple(CardInstance(one, one in held) for one in self.wish or ())
        return msgspec.structs.replace(
            self.card, mig_enabled=self.wish is not None, instances=instances, is_fixed=True
        )


class WantedSince(msgspec.Struct, frozen=True):
    """Instances that are wanted, and since when."""

    wanted: Wanted
    since: dt.datetime


class NewLayout(msgspec.Struct, frozen=True):
    """A layout to be written for a card, and the pods for which it is; no pod for whole cards."""

    node: str
    card: DeviceId
    layout: Layout | None
    pods: tuple[str, ...] = ()


def choose(
    cards: Sequence[ManagedCard],
    wanted: Sequence[WantedSince],
    whole_cards: Mapping[str, int],
    rules: DemandRules,
    now: dt.datetime,
) -> list[NewLayout]:
    """The layouts to write now, for what is wanted, the most urgent first.

    ``whole_cards`` are the whole cards by node that the next work lacks there which waits for some: cards of
    these nodes are not cut out of whole ones.
    """
    shown = [_shown(one, whole_cards, rules, now) for one in cards]
    found = plan(shown, [one.wanted for one in wanted])
    patient = {one.wanted.asker for one in wanted if now - one.since >= rules.patience}
    cut = list(_cut(shown, found, patient))
    used = {one.card for one in found.placements}
    return [*cut, *_made_whole(cards, used, whole_cards, rules, now), *_taken_back(cards, rules, now)]


def _taken_back(cards: Iterable[ManagedCard], rules: DemandRules, now: dt.datetime) -> Iterator[NewLayout]:
    """Cards whose change has not begun for long: their agent is silent, or something got into use.

    They are left as they are, so that they take work again and others are cut.
    """
    for one in cards:
        is_open = one.changes and one.state in {None, LayoutState.WAITING}
        if is_open and not one.is_of_others and one.record is not None:
            if now - one.record.since >= rules.settle:
                card = one.card
                yield NewLayout(card.node, card.id, card.layout if card.mig_enabled else None)


def _shown(one: ManagedCard, whole_cards: Mapping[str, int], rules: DemandRules, now: dt.datetime) -> MigCard:
    """The card for the plan: fixed where only the instances that it has may be used."""
    card = one.as_wished()
    is_needed_whole = not card.mig_enabled and bool(whole_cards.get(card.node))
    if one.may_change(rules, now) and not is_needed_whole:
        return card
    return msgspec.structs.replace(card, is_fixed=True)


def _cut(cards: Iterable[MigCard], found: MigPlan, patient: set[str]) -> Iterator[NewLayout]:
    by_card: dict[DeviceId, list[Step]] = {}
    for step in found.steps:
        by_card.setdefault(step.card, []).append(step)
    for card in cards:
        pods = [one.asker for one in found.placements if one.card == card.id and not one.exists]
        if card.id in by_card and patient.intersection(pods):
            layout = layout_after(card.layout, by_card[card.id])
            yield NewLayout(card.node, card.id, layout, tuple(dict.fromkeys(pods)))


def _made_whole(
    cards: Iterable[ManagedCard],
    used: set[DeviceId],
    whole_cards: Mapping[str, int],
    rules: DemandRules,
    now: dt.datetime,
) -> Iterator[NewLayout]:
    """Cards that were cut on demand and serve nothing, where they are as many as the work lacks."""
    on_their_way = {one.card.node: 0 for one in cards}
    idle: dict[str, list[DeviceId]] = {}
    for one in cards:
        card = one.card
        on_their_way[card.node] += one.changes and one.wish is None
        if (
            one.record is not None
            and card.mig_enabled
            and card.id not in used
            and not (card.held or card.in_use)
            and one.may_change(rules, now)
            and one.unused_since is not None
            and now - one.unused_since >= rules.idle
        ):
            idle.setdefault(card.node, []).append(card.id)
    for node, ids in idle.items():
        lacking = whole_cards.get(node, 0) - on_their_way[node]
        # Fewer than are lacking would start nothing, and serve no instance any more.
        if 0 < lacking <= len(ids):
            yield from (NewLayout(node, one, None) for one in ids[:lacking])
