"""The report in Chromium: charts drawn, nothing fetched, no error, no sideways scroll, both themes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gpufleet.replay.report.palette import PAGE_INKS, POLICY_INKS
from tests.chromium import chromium, needs_chromium
from tests.replay.report.edge_sweeps import SWEEPS, Written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium
WIDE_PX, NARROW_PX = 1280, 400
TIMEOUT_MS = 60_000
# What moves while the file is still being read, such as a table whose next row is wider, is nobody's doing;
# charts are drawn after that.
WATCH_LAYOUT_SHIFT = """
window.shifted = [];
const told = (box) => `${box.node?.nodeName}.${box.node?.className} from ${JSON.stringify(box.previousRect)}`;
new PerformanceObserver((list) => {
  const read = performance.getEntriesByType("navigation")[0].domInteractive;
  for (const entry of list.getEntries())
    if (read && entry.startTime >= read) window.shifted.push(...entry.sources.map(told));
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as launched:
        yield launched


class OpenReport:
    """A report in a page, with what the page complained of and asked for."""

    def __init__(self, browser: "Browser", report_of: Written, name: str, width_px: int, scheme: str) -> None:
        dark = scheme == "dark"
        self.page: Page = browser.new_page(
            viewport={"width": width_px, "height": 900}, color_scheme="dark" if dark else "light"
        )
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.add_init_script(WATCH_LAYOUT_SHIFT)
        self.url = report_of(name).page.as_uri()
        self.page.goto(self.url)
        if self.page.locator("#chart-data").count():
            self.page.wait_for_function(
                "document.documentElement.dataset.charts === 'drawn'", timeout=TIMEOUT_MS
            )

    def number(self, script: str) -> float:
        """What a script of the page answers."""
        return float(self.page.evaluate(script))


@pytest.fixture(scope="module", params=SWEEPS)
def narrow(browser: "Browser", report_of: Written, request: pytest.FixtureRequest) -> Iterator[OpenReport]:
    """Each report as a telephone shows it; to draw one again costs seconds."""
    report = OpenReport(browser, report_of, request.param, NARROW_PX, "light")
    yield report
    report.page.close()


@pytest.mark.parametrize("name", SWEEPS)
def test_charts_are_drawn_without_error_request_or_overflow(
    browser: "Browser", report_of: Written, name: str
) -> None:
    report = OpenReport(browser, report_of, name, WIDE_PX, "light")
    is_drawn_well(report, WIDE_PX)
    report.page.close()


def test_charts_are_drawn_without_error_request_or_overflow_on_a_telephone(narrow: OpenReport) -> None:
    is_drawn_well(narrow, NARROW_PX)


def is_drawn_well(report: OpenReport, width_px: int) -> None:
    """Nothing was complained of or fetched, nothing moved, every chart has curves, and all fit the width."""
    assert report.complaints == []
    assert report.requests == [report.url]
    assert report.number("document.documentElement.scrollWidth") <= width_px
    empty = report.page.evaluate(
        "[...document.querySelectorAll('.chart')].filter((box) => !box.querySelector('svg path')).length"
    )
    assert empty == 0
    assert report.page.evaluate("window.shifted") == []
    assert report.page.evaluate("window.hacked === undefined")


def test_the_heading_of_a_wide_table_is_read_without_scrolling(narrow: OpenReport) -> None:
    narrow.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    cut = narrow.page.evaluate(
        "[...document.querySelectorAll('caption span')].filter((one) => {"
        " const box = one.getBoundingClientRect();"
        " return box.right > one.closest('.scroll').getBoundingClientRect().right + 1; })"
        ".map((one) => one.innerText)"
    )
    assert narrow.page.locator("caption span").count() > 0
    assert cut == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_have_the_colours_of_the_theme(browser: "Browser", report_of: Written, scheme: str) -> None:
    report = OpenReport(browser, report_of, "usual", 1280, scheme)
    inks = report.page.evaluate(
        "[...document.querySelectorAll('#allocation-0 path')].map((path) => getComputedStyle(path).stroke)"
    )
    is_dark = scheme == "dark"
    assert rgb(POLICY_INKS[0][is_dark]) in inks
    ground = report.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == rgb(PAGE_INKS["page"][is_dark])
    report.page.close()


def rgb(ink: str) -> str:
    """A colour as browsers compute it."""
    return "rgb(" + ", ".join(str(int(ink[at : at + 2], 16)) for at in (1, 3, 5)) + ")"


def test_the_toggle_works_by_keyboard_and_is_remembered(browser: "Browser", report_of: Written) -> None:
    report = OpenReport(browser, report_of, "one", 390, "light")
    theme = "document.documentElement.dataset.theme"
    assert report.page.evaluate(theme) == "light"
    report.page.locator("#theme").focus()
    report.page.keyboard.press("Enter")
    assert report.page.evaluate(theme) == "dark"
    report.page.reload()
    assert report.page.evaluate(theme) == "dark"
    report.page.close()


def test_pointing_at_a_curve_tells_the_figures_of_every_policy(
    browser: "Browser", report_of: Written
) -> None:
    report = OpenReport(browser, report_of, "hostile", 1280, "light")
    box = report.page.locator("#allocation-0 svg")
    box.scroll_into_view_if_needed()
    box.hover(position={"x": 200, "y": 150})
    tooltip = report.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=TIMEOUT_MS)
    for policy in SWEEPS["hostile"].policies[:3]:
        assert policy.policy in tooltip.inner_text()
    assert report.page.evaluate("window.hacked === undefined")
    report.page.close()


def test_a_sentence_stands_on_the_page_once(browser: "Browser", report_of: Written) -> None:
    report = OpenReport(browser, report_of, "usual", 400, "light")
    said = report.page.evaluate(
        "[...document.querySelectorAll('main p:not(.block)')].map((one) => one.innerText.trim())"
    )
    # A block of the map is named under each policy, and how lines are drawn above each group of charts.
    sentences = [one for text in said for one in text.split(". ") if one and "seeds, bands" not in one]
    assert sorted(sentences) == sorted(set(sentences))
    report.page.close()


def test_every_chart_has_words_and_a_table(browser: "Browser", report_of: Written) -> None:
    report = OpenReport(browser, report_of, "usual", 1280, "light")
    silent = report.page.evaluate(
        "[...document.querySelectorAll('.chart svg')].filter((svg) => !svg.closest('[aria-label]')).length"
    )
    assert silent == 0
    figures = report.page.locator("figure.card")
    assert figures.count() == report.page.locator("figure.card:has(details table)").count() > 0
    report.page.close()


def test_paper_is_light_even_from_a_dark_page(browser: "Browser", report_of: Written) -> None:
    report = OpenReport(browser, report_of, "one", 1280, "dark")
    report.page.emulate_media(media="print", color_scheme="dark")
    ink = report.page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert ink == rgb(PAGE_INKS["text"][0])
    report.page.close()
