"""A layout with so many instances of each profile: around what is in use, and with as much as can stay."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpufleet.mig.cards import MigCard
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.places import places_of
from gpufleet.model.mig import Layout, MigInstance


def counted_layout(card: MigCard, counts: Mapping[str, int]) -> Layout:
    """The layout of these counts that keeps most instances of a card, all in use among them.

    Raises InputError for a profile that the board does not have, and MigPlanError where the counts do not fit
    around what is in use.
    """
    wanted = Counter({card.geometry.profile(name).name: count for name, count in counts.items() if count})
    held = Counter(one.profile for one in card.held)
    for one in card.held:
        if held[one.profile] > wanted[one.profile]:
            problem = f"{one.profile} at {one.start} of {card.id} is in use, and has no place in the layout"
            raise MigPlanError(problem, field="mig-devices", expected="a layout with all instances in use")
    sizes = {one.name: one.memory_slices for one in card.geometry.profiles}
    left = sorted((wanted - held).elements(), key=lambda name: (-sizes[name], name))
    found = max(_layouts(card, card.held, left), key=lambda one: _value(card, one), default=None)
    if found is None:
        text = ", ".join(f"{count} of {name}" for name, count in sorted(wanted.items()))
        beside = " beside what is in use" if card.held else ""
        raise MigPlanError(f"{text} do not fit on {card.id}{beside}", field="mig-devices")
    return found


def _value(card: MigCard, layout: Layout) -> tuple[int, int, Layout]:
    """How many instances stay, and what the rest of the card is worth."""
    kept = len(set(layout) & set(card.layout))
    return kept, places_of(card.geometry).orders_served(card.geometry.taken(layout)), layout


def _layouts(card: MigCard, layout: Layout, left: Sequence[str]) -> Iterator[Layout]:
    """Every way to place what is left, the largest first; like instances from the highest start down."""
    if not left:
        yield tuple(sorted(layout))
        return
    profile = card.geometry.profile(left[0])
    same = [one.start for one in layout if one.profile == profile.name and one not in card.held]
    if sum(one.profile == profile.name for one in layout) == profile.maximum:
        return
    for start in card.geometry.free_starts(profile, card.geometry.taken(layout)):
        # In one order alone, since equal instances in another order are the same layout.
        if not same or start < min(same):
            yield from _layouts(card, (*layout, MigInstance(start, profile.name)), left[1:])
