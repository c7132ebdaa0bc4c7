"""What each place on a board is worth to work that comes later.

On one card the start is taken after which most orders of arrival can still be served to the end, if all
later instances are placed in the best way too. Of the 424 orders in which a board of seven slices can be
filled this serves 393, and no rule that does not know what comes serves more. Between cards the places that
are lost count, each by its compute slices: how many orders a card could serve would make an empty card worth
more than any two others.
"""

from functools import cache

from gpufleet.model.mig import MigGeometry, MigProfile


class BoardPlaces:
    """The places of one board. ``taken`` are memory slices as bits."""

    def __init__(self, geometry: MigGeometry) -> None:
        self._geometry = geometry
        # Variants with media extensions take the places of the plain ones, so that they would count twice.
        self._plain = tuple(
            (one, tuple(one.slices(start) for start in one.starts)) for one in geometry.plain_profiles
        )
        self._orders: dict[int, int] = {}
        self._room: dict[int, int] = {}

    def orders_served(self, taken: int) -> int:
        """How many orders of arrival the rest of the card serves to the end, without the empty one."""
        known = self._orders.get(taken)
        if known is None:
            known = self._orders[taken] = sum(
                1 + max(self.orders_served(taken | slices) for slices in fitting)
                for _, places in self._plain
                if (fitting := [slices for slices in places if not slices & taken])
            )
        return known

    def room(self, taken: int) -> int:
        """The places that are left, each counted by its profile's compute slices; they may overlap."""
        known = self._room.get(taken)
        if known is None:
            known = self._room[taken] = sum(
                profile.compute_slices * sum(not slices & taken for slices in places)
                for profile, places in self._plain
            )
        return known

    def best_start(self, profile: MigProfile, taken: int) -> int | None:
        """Where one more instance of a profile begins; None where it fits nowhere.

        Of starts that are worth the same the last is taken, as large profiles begin at the first slice only.
        """
        starts = self._geometry.free_starts(profile, taken)
        if not starts:
            return None
        return max(starts, key=lambda start: (self.orders_served(taken | profile.slices(start)), start))


@cache
def places_of(geometry: MigGeometry) -> BoardPlaces:
    """The places of a board; what was counted once is kept."""
    return BoardPlaces(geometry)
