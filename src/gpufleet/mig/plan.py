"""Which cards are cut for the instances that are wanted, and where on each.

An instance that exists and that nothing uses is taken first. Then the card is taken that loses least for
later work (``places``), of these the fullest, and a card out of MIG mode last, so that whole cards stay
whole. Instances in use are never moved; unused ones go where they are in the way, and stay elsewhere.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.mig.cards import MigCard
from gpufleet.mig.places import places_of
from gpufleet.mig.steps import Step, steps_to
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance, MigProfile
from gpufleet.model.phrases import counted


class Wanted(msgspec.Struct, frozen=True):
    """Instances that are wanted together on one node: of one of ``nodes``, or of any where that is None.

    Those of one ``group`` that follow each other get their instances all or none, as the members of a gang.
    """

    asker: str
    profiles: tuple[str, ...]
    nodes: frozenset[str] | None = None
    group: str = ""


class Placement(msgspec.Struct, frozen=True):
    """An instance for who asked; ``exists`` where it need not be made."""

    asker: str
    node: str
    card: DeviceId
    instance: MigInstance
    exists: bool


class Unplaced(msgspec.Struct, frozen=True):
    """What gets no instance, and why."""

    asker: str
    profiles: tuple[str, ...]
    reason: str


class MigPlan(msgspec.Struct, frozen=True):
    """What each of the wanted gets, and every step for it, card by card."""

    placements: tuple[Placement, ...]
    unplaced: tuple[Unplaced, ...]
    steps: tuple[Step, ...]


class _Cut(msgspec.Struct, frozen=True):
    """A card in a plan: the slices of instances in use and of those planned, and the planned ones."""

    card: MigCard
    taken: int
    planned: tuple[tuple[str, MigInstance], ...] = ()

    def with_one(self, asker: str, profile: MigProfile, start: int) -> "_Cut":
        planned = (*self.planned, (asker, MigInstance(start, profile.name)))
        return _Cut(self.card, self.taken | profile.slices(start), planned)


Cuts = Mapping[DeviceId, _Cut]
Cost = tuple[int, int, int, int]
"""Cards whose mode is switched, instances to make, places lost, and slices in use as a negative number."""

NO_COST: Cost = (0, 0, 0, 0)


def plan(cards: Sequence[MigCard], wanted: Iterable[Wanted]) -> MigPlan:
    """The plan for what is wanted, the most urgent first.

    Where the next one finds no place beside those before it, all of them are placed anew, the largest first:
    all that came before keep an instance.
    """
    empty = {one.id: _Cut(one, one.geometry.taken(one.held)) for one in cards}
    cuts: Cuts = empty
    served: list[Wanted] = []
    unplaced = []
    hopeless: set[tuple[object, ...]] = set()
    for together in _groups(wanted):
        request = tuple((one.profiles, one.nodes) for one in together)
        more = None
        if request not in hopeless:
            more = _all_placed(cuts, together) or _placed_anew(empty, [*served, *together])
        if more is None:
            # More and more is taken, so that the same request fits no later either.
            hopeless.add(request)
            unplaced += [Unplaced(one.asker, one.profiles, _reason(cuts, one)) for one in together]
        else:
            cuts = more
            served += together
    return MigPlan(tuple(_placements(cuts, served)), tuple(unplaced), tuple(_steps(cuts)))


def _groups(wanted: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    """What is wanted all or none; what has no group is by itself."""
    for _, group in itertools.groupby(enumerate(wanted), key=lambda one: one[1].group or one[0]):
        yield [one for _, one in group]


def _placed_anew(empty: Cuts, wanted: Sequence[Wanted]) -> Cuts | None:
    return _all_placed(empty, sorted(wanted, key=lambda one: _size(empty, one), reverse=True))


def _all_placed(cuts: Cuts, wanted: Iterable[Wanted]) -> Cuts | None:
    """The cards with all that is wanted, in this order; None where one finds no place."""
    found: Cuts | None = cuts
    for one in wanted:
        if found is not None:
            found = _placed(found, one)
    return found


def _size(cuts: Cuts, wanted: Wanted) -> tuple[int, int]:
    """The slices of what is wanted: of memory, then of compute."""
    boards = {cut.card.geometry for cut in cuts.values()}
    sizes = {one.name: (one.memory_slices, one.compute_slices) for board in boards for one in board.profiles}
    found = [sizes.get(name, (0, 0)) for name in wanted.profiles]
    return sum(memory for memory, _ in found), sum(compute for _, compute in found)


def _placed(cuts: Cuts, wanted: Wanted) -> Cuts | None:
    """The cards with what is wanted on the node where it costs least; None where it fits on no node."""
    nodes: dict[str, list[_Cut]] = {}
    for cut in cuts.values():
        if cut.card.can_be_cut and (wanted.nodes is None or cut.card.node in wanted.nodes):
            nodes.setdefault(cut.card.node, []).append(cut)
    found = [on for node in nodes.values() if (on := _on_node(node, wanted)) is not None]
    if not found:
        return None
    _, changed = min(found, key=lambda one: one[0])
    return {**cuts, **changed}


def _on_node(cuts: Sequence[_Cut], wanted: Wanted) -> tuple[Cost, Cuts] | None:
    node = {cut.card.id: cut for cut in cuts}
    total = NO_COST
    # Large ones first: they have the fewest places.
    for name in sorted(wanted.profiles, key=lambda name: _size(node, Wanted("", (name,))), reverse=True):
        choices = [one for cut in node.values() if (one := _choice(cut, name)) is not None]
        if not choices:
            return None
        cost, cut, profile, start = min(choices, key=lambda one: one[0])
        node[cut.card.id] = cut.with_one(wanted.asker, profile, start)
        total = total[0] + cost[0], total[1] + cost[1], total[2] + cost[2], total[3] + cost[3]
    return total, {one: cut for one, cut in node.items() if cut.planned}


def _choice(cut: _Cut, name: str) -> tuple[Cost, _Cut, MigProfile, int] | None:
    """The best place for one more instance on a card, and what it costs."""
    card = cut.card
    profile = next((one for one in card.geometry.profiles if one.name == name), None)
    # Some profiles can be made fewer times than they have starts.
    if profile is None or (profile.maximum < len(profile.starts) and _count(cut, name) == profile.maximum):
        return None
    places = places_of(card.geometry)
    ready = [one.start for one in _ready(cut, name)]
    if ready:
        start = max(ready, key=lambda one: (places.orders_served(cut.taken | profile.slices(one)), one))
    elif card.is_fixed or (best := places.best_start(profile, cut.taken)) is None:
        return None
    else:
        start = best
    lost = places.room(cut.taken) - places.room(cut.taken | profile.slices(start))
    # A card that this plan switches already costs no second switch.
    switches = not card.mig_enabled and not cut.planned
    return (int(switches), int(not ready), lost, -cut.taken.bit_count()), cut, profile, start


def _count(cut: _Cut, profile: str) -> int:
    held = sum(one.profile == profile for one in cut.card.held)
    return held + sum(one.profile == profile for _, one in cut.planned)


def _ready(cut: _Cut, profile: str) -> Iterator[MigInstance]:
    """Instances of a profile that exist, that nothing uses, and that nothing planned overlaps."""
    for one in cut.card.unused:
        if one.profile == profile and not cut.card.geometry.profile(profile).slices(one.start) & cut.taken:
            yield one


def _placements(cuts: Cuts, served: Iterable[Wanted]) -> Iterator[Placement]:
    """What each gets, in the order of those who asked."""
    found: dict[str, list[Placement]] = {}
    for cut in cuts.values():
        for asker, one in cut.planned:
            exists = one in cut.card.unused
            found.setdefault(asker, []).append(Placement(asker, cut.card.node, cut.card.id, one, exists))
    for asker in dict.fromkeys(one.asker for one in served):
        yield from found.get(asker, ())


def _steps(cuts: Cuts) -> Iterator[Step]:
    for cut in cuts.values():
        if cut.planned:
            yield from steps_to(cut.card, _layout(cut))


def _layout(cut: _Cut) -> Layout:
    """What is in use, what is planned, and the unused instances that nothing planned overlaps."""
    board = cut.card.geometry
    planned = [one for _, one in cut.planned]
    fixed = [*cut.card.held, *planned]
    taken = board.taken(fixed)
    stay = [
        one
        for one in cut.card.unused
        if one not in planned
        and not board.profile(one.profile).slices(one.start) & taken
        and sum(other.profile == one.profile for other in fixed) < board.profile(one.profile).maximum
    ]
    return tuple(sorted([*fixed, *stay]))


def _reason(cuts: Cuts, wanted: Wanted) -> str:
    """Why there is no place, with counts of cards."""
    cards = [cut for cut in cuts.values() if wanted.nodes is None or cut.card.node in wanted.nodes]
    names = " and ".join(wanted.profiles)
    fitting = [cut for cut in cards if _has_all(cut.card, wanted.profiles)]
    if not fitting:
        return f"no card that it may use can be cut into {names}"
    in_use = sum(not cut.card.can_be_cut for cut in fitting)
    full = len(fitting) - in_use
    parts = []
    if in_use:
        parts.append(f"{in_use} in use as a whole")
    if full:
        parts.append(f"{full} without room beside what is in use or planned")
    return f"of {counted(len(fitting), 'card')} with {names}, {' and '.join(parts)}"


def _has_all(card: MigCard, profiles: Iterable[str]) -> bool:
    return {one.name for one in card.geometry.profiles}.issuperset(profiles)
