"""What places are worth: of the 424 orders in which a card can be filled, 393 are served."""

import itertools

from gpufleet.mig.places import places_of
from gpufleet.model.mig import Layout
from tests.mig.mig_cards import A30, H100

Order = tuple[str, ...]


def orders_of_arrival() -> set[Order]:
    """Every order of every set of instances that a card can have together."""
    packable = {tuple(sorted(one.profile for one in layout)) for layout in H100.layouts() if layout}
    return {one for profiles in packable for one in itertools.permutations(profiles)}


def test_393_of_424_orders_of_arrival_are_served_to_the_end() -> None:
    """The most that a rule can serve which does not know what comes (found by exhaustive search)."""
    places = places_of(H100)
    taken: dict[Order, int] = {(): 0}
    orders = orders_of_arrival()
    for order in sorted(orders, key=len):
        before = taken.get(order[:-1])
        if before is not None:
            profile = H100.profile(order[-1])
            start = places.best_start(profile, before)
            if start is not None:
                taken[order] = before | profile.slices(start)
    assert (len(orders), len(taken.keys() & orders)) == (424, 393)
    assert places.orders_served(0) == 393


def test_the_first_small_instance_leaves_the_place_of_the_largest_half() -> None:
    """4g begins at 0 alone, so that what can begin in the other half goes there."""
    places = places_of(H100)
    for name in ("1g.10gb", "1g.20gb", "3g.40gb"):
        start = places.best_start(H100.profile(name), 0)
        assert start is not None
        assert start >= 4


def test_room_is_the_places_that_are_left_by_their_compute_slices() -> None:
    """Of an A30: four of 1g, two of 2g, one of 4g; beside 1g at 3 three of 1g and one of 2g."""
    places = places_of(A30)
    assert places.room(0) == 4 * 1 + 2 * 2 + 1 * 4
    assert places.room(0b1000) == 3 * 1 + 1 * 2
    assert places.room(0b1111) == 0


def test_a_full_card_has_no_start() -> None:
    layouts: tuple[Layout, ...] = tuple(one for one in H100.layouts() if H100.is_maximal(one))
    for layout in layouts:
        taken = H100.taken(layout)
        assert all(places_of(H100).best_start(one, taken) is None for one in H100.profiles)
        assert places_of(H100).orders_served(taken) == 0
