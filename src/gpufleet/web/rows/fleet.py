"""The row of the view of the fleet: sums over its nodes, and how its free GPUs lie."""

from collections.abc import Collection

from gpufleet.model.phrases import counted
from gpufleet.overview.rows.use import total
from gpufleet.web.documents import FleetRow, NodeRow

BLOCKS = (1, 2, 4, 8)
"""Sizes of pods that are always counted: those of most work, up to a whole node of most servers."""

AWAY = frozenset({"not ready", "no report"})


def fleet_row(nodes: Collection[NodeRow], pods_waiting: int | None) -> FleetRow:
    """The sums; what one node does not tell is unknown of all."""
    free = [one.free_gpus for one in nodes]
    known_free = [] if None in free else [one or 0 for one in free]
    is_known = bool(known_free) or not nodes
    held = total(one.gpus_held for one in nodes)
    return FleetRow(
        "fleet",
        summary=_summary(nodes, held),
        nodes=len(nodes),
        gpus=sum(one.gpus or 0 for one in nodes),
        gpus_held=held if nodes else 0.0,
        gpus_unwell=sum(one.gpus_unwell or 0 for one in nodes),
        free_gpus=sum(known_free) if is_known else None,
        largest_free_block=max(known_free, default=0) if is_known else None,
        free_blocks={str(size): sum(one // size for one in known_free) for size in _sizes(nodes)}
        if is_known
        else {},
        fragmented_gpus=_fragmented(nodes) if is_known else None,
        pods_waiting=pods_waiting,
    )


def _sizes(nodes: Collection[NodeRow]) -> list[int]:
    """Sizes of pods, each twice the one before, up to a whole node of the largest."""
    largest, sizes = max((one.gpus or 0 for one in nodes), default=0), list(BLOCKS)
    while sizes[-1] * 2 <= largest:
        sizes.append(sizes[-1] * 2)
    return sizes


def _fragmented(nodes: Collection[NodeRow]) -> int:
    return sum(one.free_gpus or 0 for one in nodes if one.gpus_held)


def _summary(nodes: Collection[NodeRow], held: float | None) -> str:
    unwell = sum(one.gpus_unwell or 0 for one in nodes)
    away = sum(one.state in AWAY for one in nodes)
    said = [
        counted(len(nodes), "node"),
        counted(sum(one.gpus or 0 for one in nodes), "GPU"),
        f"{'?' if held is None and nodes else f'{held or 0:.6g}'} held",
        f"{unwell} unwell" if unwell else "",
        f"{counted(away, 'node')} away" if away else "",
    ]
    return ", ".join(part for part in said if part)
