"""Draws the packages of gpufleet in layers, as import-linter holds them, into docs/images/packages.svg.

    python -m manual.packages_picture

The layers are read from the contract in pyproject.toml, so that the picture cannot say anything else. It is
narrow and its letters are large, because a phone shows it at 370 pixels.
"""

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "packages.svg"
WIDTH = 480
PADDING = 12
LETTER = 9.1
"""The width of a letter of the boxes: 0.6 em, as all monospaced fonts have it, at 15 pixels."""

BOX_HEIGHT = 34
GAP = 8
HEAD = 30
MONOSPACE = "ui-monospace, Menlo, Consolas, monospace"
LAYERS = (
    ("command line", "#e8eefc"),
    ("simulated cluster", "#e8eefc"),
    ("the fleet on a terminal and in a browser", "#e8eefc"),
    ("the fleet as rows", "#e8eefc"),
    ("shells", "#dbe7ff"),
    ("what happened, and what it cost", "#dbe7ff"),
    ("what pods are given", "#e3f3ea"),
    ("rules for manifests", "#e3f3ea"),
    ("judgement, a cluster as values, evictions, virtual time", "#fdf0d9"),
    ("engine and edges", "#fbe3dc"),
    ("devices for claims", "#fbe3dc"),
    ("expressions that select devices", "#fbe3dc"),
    ("files", "#eeeeee"),
    ("values, progress of long steps, an independent auditor", "#eeeeee"),
)
"""Title and colour of each layer of the contract, from the top."""


def layers() -> list[list[str]]:
    """The packages of each layer, from the top; one in brackets may be missing, and is left out."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    contract = next(one for one in contracts if one["id"] == "layers")
    return [
        [package for package in line.split(" | ") if not package.startswith("(")]
        for line in contract["layers"]
    ]


def drawn() -> str:
    """The picture as SVG."""
    shapes: list[str] = []
    top = PADDING
    for (title, colour), packages in zip(LAYERS, layers(), strict=True):
        boxes, height = boxes_of(packages, top + HEAD)
        shapes += [
            (
                f'<rect x="{PADDING}" y="{top}" width="{WIDTH - 2 * PADDING}" height="{HEAD + height}" rx="8"'
                f' fill="{colour}"/>'
            ),
            f'<text x="{2 * PADDING}" y="{top + 21}" font-size="14" fill="#42506a">{escape(title)}</text>',
            *boxes,
        ]
        top += HEAD + height + GAP
    height = top - GAP + PADDING
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" font-family="system-ui, sans-serif" role="img"'
        ' aria-label="The packages of gpufleet in layers">'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    return "\n".join((head, ground, *shapes, "</svg>")) + "\n"


def boxes_of(packages: list[str], top: int) -> tuple[list[str], int]:
    """A box for each package, in as many rows as they need, and the height of all rows."""
    shapes: list[str] = []
    left, row = 2 * PADDING, top
    for package in packages:
        width = round(len(package) * LETTER) + 2 * PADDING
        if left + width > WIDTH - 2 * PADDING:
            left, row = 2 * PADDING, row + BOX_HEIGHT + GAP
        shapes += [
            (
                f'<rect x="{left}" y="{row}" width="{width}" height="{BOX_HEIGHT}" rx="6" fill="#ffffff"'
                ' stroke="#8492b0"/>'
            ),
            (
                f'<text x="{left + width / 2:g}" y="{row + 22}" font-size="15" text-anchor="middle"'
                f' font-family="{MONOSPACE}" fill="#1d2636">{package}</text>'
            ),
        ]
        left += width + GAP
    return shapes, row - top + BOX_HEIGHT + PADDING


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
