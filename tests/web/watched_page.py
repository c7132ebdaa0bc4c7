"""A browser on the page of a server: what a test opens, does, and reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.web.sample_fleet import AT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(__file__).parent / "vendor/axe.js"
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    # Off by default, and part of WCAG 2.2 AA.
    "rules": {"target-size": {"enabled": True}},
}


def address(*parts: str) -> str:
    """Where something stands within the page."""
    return "#/" + "/".join(parts)


VIEWS = {
    "fleet": address("fleet"),
    "queues": address("queues"),
    "queue": address("queue", "language"),
    "work": address("work"),
    "work-waits": address("work", "pod", "team-vision", "waits-0000"),
    "work-runs": address("work", "pod", "team-vision", "train-gpu-00001-0"),
    "node": address("node", "gpu-00003"),
    "plans": address("plans"),
    "decisions": address("decisions"),
    "problems": address("problems"),
    "projects": address("projects"),
}
"""The address of each view, with things of the sample fleet."""
WAIT_MS = 90_000
"""A browser may share its cores with a cluster of other tests."""
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Chromium cuts all requests when an address of the machine changes, as real nodes of other tests do."""
DRAWN = "document.querySelector('main h1') && !document.querySelector('main .loading')"


class WatchedPage:
    """A page, with what the browser complained of and asked for."""

    def __init__(self, page: "Page", url: str, *, has_clock: bool) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.failures: list[str] = []
        page.on("console", lambda message: self._hears(message.text))
        page.on("requestfailed", lambda request: self.failures.append(f"{request.url}: {request.failure}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        if not has_clock:
            # The sample fleet stands still, so that ages do.
            page.clock.set_fixed_time(AT)

    def _hears(self, complaint: str) -> None:
        """Take what the browser complains of; a change of the machine's network is no fault of the page."""
        if NETWORK_CHANGED not in complaint:
            self.complaints.append(complaint)

    def _open(self, address: str) -> None:
        """Open an address, again where the network was cut meanwhile."""
        from playwright.sync_api import Error

        while True:
            try:
                self.page.goto(f"{self.url}{address}")
            except Error as cut:
                if NETWORK_CHANGED not in cut.message:
                    raise
            else:
                return

    def look_at(self, address: str) -> None:
        """Open a view and wait until it is drawn."""
        self._open(address)
        self.wait_until(f"document.querySelector('main')?.dataset.address === {address!r}")
        self.wait_until(DRAWN)

    def wait_until(self, holds: str) -> None:
        """Wait until an expression holds in the page.

        As a function it is not evaluated by the page itself, which its content security policy refuses.
        """
        from playwright.sync_api import TimeoutError as Late

        try:
            self.page.wait_for_function(f"() => {holds}", timeout=WAIT_MS)
        except Late as late:
            said = f"{holds}: not within {WAIT_MS} ms, {self.complaints}, {self.failures}"
            raise AssertionError(said) from late

    def violations(self) -> list[str]:
        """What axe finds wrong, with the elements."""
        if not self.page.evaluate("'axe' in window"):
            # The content security policy is for the page, not for the test's own tool.
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("rules => axe.run(document, rules)", RULES)
        return [f"{one['id']}: {node['html'][:120]}" for one in found["violations"] for node in one["nodes"]]

    def is_too_wide(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        )

    def rows(self) -> list[str]:
        """The keys of the rows of the table, in order."""
        found: list[str] = self.page.eval_on_selector_all(
            "tbody tr[data-key]", "rows => rows.map((row) => row.dataset.key)"
        )
        return found

    def focused(self) -> str:
        """What has the focus: its id, its label or its words."""
        return str(
            self.page.evaluate(
                "(document.activeElement.id || document.activeElement.getAttribute('aria-label') || "
                "document.activeElement.textContent).trim()"
            )
        )

    def said(self) -> str:
        """What people who hear the page were told last."""
        return self.page.locator("#said").inner_text()


@contextmanager
def watched(
    browser: "Browser", url: str, *, width_px: int = 1280, is_dark: bool = False, has_clock: bool = False
) -> Iterator[WatchedPage]:
    """A page of one's own during the block. Without ``has_clock`` it is the moment of the sample fleet."""
    context = browser.new_context(
        viewport={"width": width_px, "height": 900},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    try:
        yield WatchedPage(context.new_page(), url, has_clock=has_clock)
    finally:
        context.close()
