"""The charts as PNG files, for where a page cannot go: a slide, a chat, an issue.

``vl-convert`` draws them without a browser, with the light palette and a fixed width.
``write`` writes the bytes.
"""

import json
from collections.abc import Sequence
from html import escape

import vl_convert

from gpufleet.replay.report.chart import Chart, file_spec
from gpufleet.replay.report.node_map import LEVEL_MEANINGS, MAP_WIDTH, NodeMap, heat_ink
from gpufleet.replay.report.palette import with_light_inks

# Two pixels for one, for screens of high density and for print.
_SCALE = 2.0
# In pixels, around maps and between them.
_PAD = 24
# Maps beside each other in the picture.
_COLUMNS = 2
# In pixels.
_HEADING_HEIGHT = 26
_BLOCK_GAP = 4


def chart_png(chart: Chart) -> bytes:
    """The chart as a PNG."""
    spec = with_light_inks(json.dumps(file_spec(chart)))
    return vl_convert.vegalite_to_png(json.loads(spec), scale=_SCALE, allowed_base_urls=[])


def _text(words: str, x: int, y: int, *, size: int, bold: bool = False) -> str:
    weight = "bold" if bold else "normal"
    look = f'font-family="sans-serif" font-size="{size}" font-weight="{weight}" fill="var(--text)"'
    return f'<text x="{x}" y="{y}" {look}>{escape(words)}</text>'


def _map_height(node_map: NodeMap) -> int:
    return 34 + sum(block.height + _HEADING_HEIGHT + _BLOCK_GAP for block in node_map.blocks)


def _map_group(node_map: NodeMap, x: int, y: int) -> str:
    title = f"{node_map.policy}, seed {node_map.seed}"
    parts = [_text(title, x, y + 16, size=15, bold=True)]
    at = y + 34
    for block in node_map.blocks:
        parts.append(_text(f"{block.heading}: {block.about}", x, at + 14, size=12))
        at += _HEADING_HEIGHT
        parts.append(f'<g transform="translate({x} {at})">{block.elements}</g>')
        at += block.height + _BLOCK_GAP
    return "".join(parts)


def _map_key(x: int, y: int) -> str:
    parts = []
    for level, meaning in enumerate(LEVEL_MEANINGS):
        at = x + level * 130
        parts.append(f'<rect x="{at}" y="{y}" width="12" height="12" fill="{heat_ink(level)}"/>')
        parts.append(_text(meaning, at + 18, y + 11, size=12))
    at = x + len(LEVEL_MEANINGS) * 130
    parts.append(f'<rect x="{at}" y="{y + 4}" width="12" height="4" fill="var(--accent)"/>')
    parts.append(_text("CPU of the node full", at + 18, y + 11, size=12))
    return "".join(parts)


def node_maps_png(maps: Sequence[NodeMap]) -> bytes:
    """All node maps side by side as one PNG, at a scale that draws cells on whole pixels."""
    columns = min(_COLUMNS, len(maps))
    width = max(columns * (MAP_WIDTH + _PAD) + _PAD, 960 + _PAD)
    y = _PAD
    parts = [_map_key(_PAD, y)]
    y += 36
    for first in range(0, len(maps), _COLUMNS):
        row = maps[first : first + _COLUMNS]
        for column, node_map in enumerate(row):
            parts.append(_map_group(node_map, _PAD + column * (MAP_WIDTH + _PAD), y))
        y += max(_map_height(node_map) for node_map in row) + _PAD
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}">'
        f'<rect width="100%" height="100%" fill="var(--surface)"/>{"".join(parts)}</svg>'
    )
    return vl_convert.svg_to_png(with_light_inks(svg))
