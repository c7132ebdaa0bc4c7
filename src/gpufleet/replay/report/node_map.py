"""The picture of all nodes at the end of a run: a column for each node, a cell for each GPU.

Thousands of cells would be a heavy page if each were an element. A node is drawn as one bar of GPUs
in full use, and only the cells that are not full lie on it, one path for each level of use; so a
full cluster is small, and what is idle stands out. Nodes are grouped by type and ordered by use, so
that idle ones gather at the end. ``page`` shows the blocks, ``raster`` joins them to a PNG.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.replay.report.figures import count, plural
from gpufleet.replay.report.palette import HEAT_INKS
from gpufleet.replay.report.selection import policy_names, runs_of
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import NodePicture, SweepResult

LEVEL_MEANINGS = (
    "in full use",
    "over 75% used",
    "50 to 75%",
    "25 to 50%",
    "under 25%",
    "entirely free",
)
# From here on a node has its mark for full CPU.
CPU_FULL_FROM_PCT = 95.0
# Of one map, in pixels.
MAP_WIDTH = 600
# As the legend above names them.
_LEVEL_FROM_MILLI = (1000, 750, 500, 250, 1)
# Sizes in pixels: a node is a column of cells, a cell for each GPU, with a mark below for full CPU.
_NODE_PITCH = 6
_CELL_WIDTH = 5
_CELL_PITCH = 5
_CELL_HEIGHT = 4
_CPU_MARK_HEIGHT = 2
_ROW_GAP = 5
_NODES_A_ROW = MAP_WIDTH // _NODE_PITCH


class TypeBlock(msgspec.Struct, frozen=True):
    """The nodes of one type: heading, height of the drawing, and its SVG elements."""

    heading: str
    about: str
    height: int
    elements: str


class NodeMap(msgspec.Struct, frozen=True):
    """The nodes of one policy at the end of its first seed."""

    policy: str
    seed: int
    blocks: tuple[TypeBlock, ...]


def level_of(used_milli: int) -> int:
    """Which of ``LEVEL_MEANINGS`` a GPU is at, from full use (0) to entirely free (5)."""
    for level, from_milli in enumerate(_LEVEL_FROM_MILLI):
        if used_milli >= from_milli:
            return level
    return len(_LEVEL_FROM_MILLI)


def heat_ink(level: int) -> str:
    """The colour of a level."""
    return f"var(--heat-{level})"


def _by_use(node: NodePicture) -> tuple[float, int, str]:
    used = sum(node.gpu_used_milli) / len(node.gpu_used_milli)
    return (-used, -len(node.gpu_used_milli), node.name)


def _stroke(ink: str, width: int, moves: Sequence[str]) -> str:
    """One path of short strokes; a stroke takes half the text that a box would."""
    return f'<path stroke="{ink}" stroke-width="{width}" d="{"".join(moves)}"/>' if moves else ""


def _elements(nodes: Sequence[NodePicture], row_height: int) -> str:
    """One path of node bars, one for each level that is not full, one of CPU marks."""
    bars: list[str] = []
    cells: list[list[str]] = [[] for _ in HEAT_INKS]
    cpu_marks: list[str] = []
    for position, node in enumerate(nodes):
        x = position % _NODES_A_ROW * _NODE_PITCH
        top = position // _NODES_A_ROW * row_height
        bottom = top + len(node.gpu_used_milli) * _CELL_PITCH
        bars.append(f"M{x + _CELL_WIDTH / 2} {top}V{bottom - 1}")
        for gpu, used_milli in enumerate(node.gpu_used_milli):
            level = level_of(used_milli)
            if level:
                middle = top + gpu * _CELL_PITCH + _CELL_HEIGHT // 2
                cells[level].append(f"M{x} {middle}h{_CELL_WIDTH}")
        if node.cpu_used_pct >= CPU_FULL_FROM_PCT:
            cpu_marks.append(f"M{x} {bottom + _CPU_MARK_HEIGHT // 2}h{_CELL_WIDTH}")
    paths = [_stroke(heat_ink(0), _CELL_WIDTH, bars)]
    paths += [_stroke(heat_ink(level), _CELL_HEIGHT, found) for level, found in enumerate(cells)]
    return "".join([*paths, _stroke("var(--accent)", _CPU_MARK_HEIGHT, cpu_marks)])


def _block(node_type: str, nodes: Sequence[NodePicture]) -> TypeBlock:
    gpus = [used for node in nodes for used in node.gpu_used_milli]
    row_height = max(len(node.gpu_used_milli) for node in nodes) * _CELL_PITCH + _ROW_GAP
    rows = -(-len(nodes) // _NODES_A_ROW)
    return TypeBlock(
        heading=node_type,
        about=f"{plural(len(nodes), 'node')}, {plural(len(gpus), 'GPU')}, "
        f"{count(sum(used == 0 for used in gpus))} entirely free",
        height=rows * row_height,
        elements=_elements(sorted(nodes, key=_by_use), row_height),
    )


def _gpu_nodes_by_type(nodes: Sequence[NodePicture]) -> dict[str, list[NodePicture]]:
    """Nodes with GPUs by type, the type with most GPUs first."""
    by_type: dict[str, list[NodePicture]] = {}
    for node in nodes:
        if node.gpu_used_milli:
            by_type.setdefault(node.node_type, []).append(node)
    gpus = {name: sum(len(one.gpu_used_milli) for one in found) for name, found in by_type.items()}
    return {name: by_type[name] for name in sorted(by_type, key=lambda name: (-gpus[name], name))}


def _pictures(result: SweepResult) -> list[tuple[str, int, list[NodePicture]]]:
    """Policy, seed and nodes of the first run of each policy that kept them."""
    pictures = []
    for policy in policy_names(result):
        kept = [(policy, run.seed, run.fleet_at_end) for run in runs_of(result, policy) if run.fleet_at_end]
        pictures += kept[:1]
    return pictures


def node_maps(result: SweepResult) -> list[NodeMap]:
    """The map of each policy that has nodes in the result."""
    return [
        NodeMap(
            policy,
            seed,
            tuple(_block(name, found) for name, found in _gpu_nodes_by_type(nodes).items()),
        )
        for policy, seed, nodes in _pictures(result)
    ]


def node_map_table(result: SweepResult) -> Table:
    """The table behind the maps: GPUs at each level of use by type of node."""
    rows: list[list[str]] = []
    for policy, _, nodes in _pictures(result):
        for node_type, found in _gpu_nodes_by_type(nodes).items():
            levels = [level_of(used) for node in found for used in node.gpu_used_milli]
            full_cpu = sum(node.cpu_used_pct >= CPU_FULL_FROM_PCT for node in found)
            rows.append(
                [policy, node_type, count(len(found)), count(full_cpu)]
                + [count(levels.count(level)) for level in range(len(LEVEL_MEANINGS))]
            )
    return table(
        "GPUs by use at the end of the first seed, by type of node",
        ["Policy", "Node type", "nodes", "nodes with CPU full", *LEVEL_MEANINGS],
        rows,
        label_columns=2,
    )
