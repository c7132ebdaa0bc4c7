"""Takes the pictures of the web page that README and the documents show, over a made-up fleet.

    python -m manual.web_pictures

The fleet is that of ``web_fleet``: ten thousand nodes for the map, twenty-four for the views of single
things. It needs a ``chromium`` on the path, as tests of the page do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manual.web_fleet import documents_of
from tests.chromium import chromium
from tests.web.sample_fleet import projects
from tests.web.sample_server import serving
from tests.web.watched_page import address, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).parents[1] / "docs" / "images"
WIDTH_PX, HEIGHT_PX = 1280, 860
DRAWN_MS = 1500
"""Until letters and the map are drawn, and rows of several events have come."""
SMALL, LARGE = 24, 10_000


@dataclass(frozen=True)
class Shot:
    """A picture: its file, the view, and how it looks.

    ``zoom`` is how often the map is enlarged, ``colour`` what it is coloured by where that is not the queue.
    """

    name: str
    nodes: int
    view: str
    is_dark: bool = False
    zoom: int = 0
    colour: str = ""


SHOTS = (
    Shot("web-fleet", LARGE, address("fleet")),
    Shot("web-fleet-dark", LARGE, address("fleet"), is_dark=True, zoom=4),
    Shot("web-use", LARGE, address("fleet"), colour="use"),
    Shot("web-queues", LARGE, address("queues")),
    Shot("web-work", LARGE, address("work", "gang", "team-foundation", "pretrain-512")),
    Shot("web-node", SMALL, address("node", "h100-0001")),
)


def take(browser: "Browser", url: str, shot: Shot) -> bytes:
    """The picture as PNG."""
    with watched(browser, url, width_px=WIDTH_PX, is_dark=shot.is_dark) as seen:
        seen.page.set_viewport_size({"width": WIDTH_PX, "height": HEIGHT_PX})
        seen.look_at(shot.view)
        seen.page.wait_for_timeout(DRAWN_MS)
        if shot.colour:
            seen.page.get_by_label(shot.colour, exact=True).check()
            seen.page.wait_for_timeout(DRAWN_MS)
        enlarge(seen.page, shot.zoom)
        return seen.page.screenshot()


def enlarge(page: "Page", times: int) -> None:
    """Zoom the map so often, and go to its first node."""
    for _ in range(times):
        page.get_by_role("button", name="Larger").click()
    if times:
        page.locator(".map").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(DRAWN_MS)


def samples_of(nodes: int) -> Mapping[str, object]:
    """All that the page's server serves of a fleet of so many nodes."""
    return {**documents_of(nodes), "projects": projects()}


def main() -> None:
    """Write all pictures to the documents' folder."""
    with chromium() as browser:
        for nodes in (SMALL, LARGE):
            with serving(samples=samples_of(nodes)) as server:
                for shot in SHOTS:
                    if shot.nodes == nodes:
                        (PICTURES / f"{shot.name}.png").write_bytes(take(browser, server.url, shot))


if __name__ == "__main__":
    main()
