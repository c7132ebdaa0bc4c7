"""What the cards of the made-up fleet do: ``web_fleet`` has the fleet, ``web_pictures`` takes pictures."""

import random

from gpufleet.web import documents
from tests.web.sample_fleet import AT


def use_of(nodes: list[documents.NodeRow]) -> documents.FleetUseDocument:
    """What the cards do: gangs keep theirs busy, single pods less, and some hold what they do not use."""
    chance = random.Random(5)
    usual: dict[str, float] = {}

    def load(card: documents.Card) -> float | None:
        if card.health != "healthy":
            return None
        if not card.held_milli:
            return 0.0
        name = card.holders[0].name
        if name not in usual:
            is_idle = chance.random() < 0.07
            usual[name] = 0.0 if is_idle else chance.triangular(0.1, 1.0, 0.95)
        return round(min(1.0, max(0.0, usual[name] + chance.uniform(-0.03, 0.03))), 2)

    rows = tuple(
        documents.NodeUseRow(
            row.key,
            3.0 + place % 11,
            tuple(load(card) for card in row.cards),
            tuple(round(0.55 + 0.4 * (place % 7) / 7, 2) if card.held_milli else 0.01 for card in row.cards),
        )
        for place, row in enumerate(nodes)
        if row.cards
    )
    silent = len(nodes) - len(rows)
    unknown = f"use of {silent} nodes is not known: no agent reports their GPUs" if silent else ""
    return documents.FleetUseDocument(AT, rows, unknown)
