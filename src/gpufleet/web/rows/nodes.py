"""Rows of the view of nodes: the line of ``gpufleet top``, and the cards with who holds them."""

import math

from gpufleet.kube.meanings.node_pools import pool_of
from gpufleet.kube.objects.node_devices import HEALTHY
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.nodes import READY_STATE, node_line
from gpufleet.overview.rows.pod_facts import MILLI, PodFact
from gpufleet.web.documents import Card, NodeRow
from gpufleet.web.rights import Rights
from gpufleet.web.rows.cards import cards_of


def node_row(name: str, placed: list[PodFact], known: Known, rights: Rights) -> NodeRow | None:
    """The row of one node; None for one without GPUs, or that the person may not see."""
    if not rights.nodes:
        return None
    node = known.nodes.get(("", name))
    report = known.devices.get(("", name)) if rights.devices else None
    line = node_line(name, node, report, placed, known)
    if line is None or node is None:
        return None
    cards = () if report is None else cards_of(report, placed, rights, has_all_pods=known.has_all_pods)
    is_cordoned = node.spec.unschedulable
    # A node whose state is that of its unwell cards still takes work on the others.
    takes_work = not is_cordoned and (line.state == READY_STATE or bool(line.gpus_unwell))
    return NodeRow(
        name,
        line.state,
        line.reason,
        pool_of(node.metadata.labels),
        line.model,
        line.gpus,
        line.gpus_held,
        line.gpus_unwell,
        _free(cards, line.gpus_held) if takes_work and cards else 0 if not takes_work else None,
        line.pods,
        is_cordoned,
        cards,
    )


def _free(cards: tuple[Card, ...], held: float | None) -> int | None:
    """Whole cards that new work can have; None where it is not known what is held.

    ``held`` are the GPUs that pods on the node hold. Some may be on cards that neither a grant nor the agent
    names yet: as many fewer are free.
    """
    known = [card.held_milli for card in cards if card.held_milli is not None]
    if len(known) < len(cards):
        return None
    free = sum(card.health == HEALTHY and not card.held_milli and not card.reason for card in cards)
    unplaced_milli = 0 if held is None else round(held * MILLI) - sum(known)
    return max(0, free - max(0, math.ceil(unplaced_milli / MILLI)))
