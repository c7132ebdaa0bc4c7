"""Which MIG instances of different sizes go together on one card, so that few cards are cut.

The board's geometry says which sets of instances can exist together. Instances are taken from large to small,
each onto the fullest card that can still be cut so that it fits; where it is on the card is decided when the
card is cut. That may take a card more than a search of every division would; what is promised is what was
found. ``pools`` then places the cards with the engine.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from gpufleet.model.mig import MigGeometry, MigProfile


def cards_for(board: MigGeometry, profile_of: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The pods of each card, given the profile of each pod."""
    sizes = {name: _size(board.profile(name)) for name in set(profile_of.values())}
    cards: list[list[str]] = []
    for pod in sorted(profile_of, key=lambda pod: (*sizes[profile_of[pod]], pod)):
        able = [card for card in cards if _can_exist(board, [profile_of[each] for each in (*card, pod)])]
        if able:
            max(able, key=lambda card: _slices(board, [profile_of[each] for each in card])).append(pod)
        else:
            cards.append([pod])
    return [tuple(card) for card in cards]


def _size(profile: MigProfile) -> tuple[int, int]:
    return -profile.memory_slices, -profile.compute_slices


def _slices(board: MigGeometry, names: Sequence[str]) -> int:
    return sum(board.profile(name).memory_slices for name in names)


def _can_exist(board: MigGeometry, names: Sequence[str]) -> bool:
    return tuple(sorted(names)) in _sets(board)


@cache
def _sets(board: MigGeometry) -> frozenset[tuple[str, ...]]:
    """Every set of instances that some layout has."""
    return frozenset(tuple(sorted(one.profile for one in layout)) for layout in board.layouts())
