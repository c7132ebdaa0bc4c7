"""Draws a view of ``gpufleet top`` as SVG: what the cluster of the kubeconfig shows now, at 100 columns.

The frame is the one that a terminal gets, in colour; only the window around it is drawn here.
Run it as ``python -m manual.top_picture VIEW FILE``.
"""

import asyncio
import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gpufleet.cluster.watching.picture import CONNECTIONS
from gpufleet.kube.connection import connect
from gpufleet.overview.readings.engine_asking import ask_engine
from gpufleet.overview.readings.readings import Readings, Scope
from gpufleet.top.request import TopRequest
from gpufleet.top.screen.choice import Choice
from gpufleet.top.screen.frame import ABOVE, DETAIL_LINES, Size, frame
from gpufleet.top.screen.order import Order
from gpufleet.top.screen.views import VIEWS
from gpufleet.top.showing import Freshness, ViewLines, header

WIDTH = 100
"""As wide as the pages of the documentation show without shrinking."""
LINES_MAX = 26
"""More make a picture that no page shows at once."""

FONT = "ui-monospace, Menlo, Consolas, monospace"


async def rows_of(view: str) -> tuple[str, ...]:
    """The rows of a frame."""
    request = TopRequest(view)
    async with connect(request.cluster, connections=CONNECTIONS) as connection:
        readings = Readings(connection.client, request.settings, Scope(home=connection.namespace), None)
        await readings.list_all()
        readings.engine_report = await ask_engine(readings.client, request.settings)
        await readings.read_use((name for _, name in readings.devices.objects), with_past=False)
        known = readings.known()
    lines, summary = ViewLines(request.scheduler_name).of(view, known)
    choice = Choice(view)
    ordered = Order().of(VIEWS[view], lines, choice.sort_by, reverse=False)
    above = header(summary, Freshness(0.0, "", is_whole=True), [], [readings.use_problem()], known.now)
    size = Size(WIDTH, ABOVE + DETAIL_LINES + 1 + min(len(lines), LINES_MAX))
    return frame(VIEWS[view], ordered, above, choice, size, known.now, colored=True).rows


def main() -> None:
    """Draw the view that is named into the file."""
    view, path = sys.argv[1:]
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for row in asyncio.run(rows_of(view)):
        console.print(Text.from_ansi(row), soft_wrap=True)
    svg = console.export_svg(title=f"gpufleet top {view}", unique_id=f"top-{view}")
    # A picture fetches nothing: the reader's own font with letters of one width is as good.
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*;", f"font-family: {FONT};", svg)
    Path(path).write_text(re.sub(r"\n\s*\n+", "\n", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
