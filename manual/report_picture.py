"""Takes the picture of the report that README shows, from the report of `make demo`.

    make demo
    python -m manual.report_picture

It needs a ``chromium`` on the path, as tests of the report do.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
REPORT = ROOT / "build" / "demo" / "report.html"
WIDTH_PX, HEIGHT_PX = 1280, 1400
"""As wide as a laptop's window, and as high as the first charts reach."""

DRAWN = "document.documentElement.dataset.charts === 'drawn'"


def main(report: Path) -> None:
    """Write the first screen of a report to the documents' folder."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH_PX, "height": HEIGHT_PX}, color_scheme="light", reduced_motion="reduce"
        )
        page.goto(report.resolve().as_uri())
        page.wait_for_function(DRAWN)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else REPORT)
