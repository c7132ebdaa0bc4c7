"""The pictures of dashboards in the documents: a story of a real fleet, drawn from a real Prometheus.

    python -m manual.dashboard_pictures

It needs what the tests of a real node and of Prometheus need, and takes about four minutes. ``board_drawing``
draws.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from gpufleet.dashboards.board import PanelKind
from gpufleet.dashboards.catalogue import BOARDS
from manual.board_drawing import drawn
from tests.dashboards.asking import Shown, answers
from tests.dashboards.story import a_fleet, settle

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "dashboards"
PAUSE_S = 40.0
"""So long stands each part of the story."""
IN_BOTH = "gpufleet-fleet"
"""The board that is shown on a dark page too."""


def write(address: str, shown: Shown) -> None:
    """Draw all boards from what this Prometheus says."""
    FOLDER.mkdir(exist_ok=True)
    for board in BOARDS:
        found = {
            panel.title: answers(address, panel, shown)
            for panel in board.panels
            if panel.kind is not PanelKind.TEXT
        }
        (FOLDER / f"{board.uid}.svg").write_text(drawn(board, found, shown, is_dark=False), encoding="utf-8")
        if board.uid == IN_BOTH:
            dark = drawn(board, found, shown, is_dark=True)
            (FOLDER / f"{board.uid}-dark.svg").write_text(dark, encoding="utf-8")


def main() -> None:
    """Tell the story and draw it."""
    with TemporaryDirectory() as folder, a_fleet(Path(folder)) as fleet:
        settle(fleet, PAUSE_S)
        fleet.trouble(PAUSE_S)
        write(fleet.prometheus, Shown(fleet.begun_s, time.time()))


if __name__ == "__main__":
    main()
