"""The page in Chromium as three people see it on a real API server: no view shows a row or a name of a
namespace that is not theirs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gpufleet.localkube.cluster import LocalCluster
from tests.chromium import chromium, needs_chromium
from tests.web.people import MEMBER, READER, STRANGER, token
from tests.web.test_what_people_see import FOREIGN, HIDDEN, cluster, server
from tests.web.watched_page import WatchedPage, address, watched
from tests.web.web_server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["cluster", "server"]
pytestmark = needs_chromium

WAIT_MS = 90_000
FOREIGN_WORK, NO_WORK = f"{FOREIGN}-runs", "not-there"
VIEWS = (
    address("fleet"),
    address("queues"),
    address("queue", "other-queue"),
    address("work"),
    address("work", "pod", "open-team", "open-runs"),
    address("node", "gpu-001"),
    address("node", "gpu-002"),
    address("plans"),
    address("decisions"),
    address("problems"),
    address("projects"),
)
"""Every view, and what could be foreign in it."""

OPEN, FOREIGN_ROW = "pod/open-team/open-waits", f"pod/{HIDDEN}/{FOREIGN}-waits"
SHOWN = {READER: (OPEN, FOREIGN_ROW), MEMBER: (OPEN,), STRANGER: ()}
"""Rows of work by who sees them."""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as launched:
        yield launched


def log_in(seen: WatchedPage, given: str) -> None:
    """Write a token into the form, as a person does."""
    seen.page.goto(seen.url)
    seen.page.get_by_label("Token of a service account").fill(given)
    seen.page.get_by_role("button", name="Log in").click()
    seen.page.locator(".source.live").wait_for(timeout=WAIT_MS)


def everything(seen: WatchedPage) -> str:
    """What stands in all views, shown or not, and what the page keeps for them."""
    found = []
    for view in VIEWS:
        seen.look_at(view)
        found.append(str(seen.page.evaluate("document.documentElement.outerHTML")))
    return "".join(found)


def told_of(seen: WatchedPage, name: str) -> str:
    """What the page says at the address of such a pod, without the name that was typed."""
    seen.look_at(address("work", "pod", HIDDEN, name))
    return seen.page.locator("main").inner_text().replace(name, "NAME")


@pytest.mark.parametrize("who", SHOWN)
def test_no_view_shows_what_is_not_for_its_reader(
    browser: "Browser", cluster: LocalCluster, server: Server, who: str
) -> None:
    with cluster.api() as api:
        given = token(api, who)
    with watched(browser, f"http://127.0.0.1:{server.port}/", has_clock=True) as seen:
        log_in(seen, given)
        seen.look_at(address("work"))
        for key in SHOWN[who]:
            seen.page.locator(f"tr[data-key='{key}']").wait_for(timeout=WAIT_MS)
        text = everything(seen)
        assert (FOREIGN in text) == (who == READER)
        assert ("open-waits" in text) == (who != STRANGER)
        # Whether it is there is not told either.
        assert (told_of(seen, FOREIGN_WORK) == told_of(seen, NO_WORK)) == (who != READER)
        seen.look_at(address("work"))
        assert set(SHOWN[who]) <= set(seen.rows())
        assert all(key.split("/")[1] != HIDDEN for key in seen.rows()) == (who != READER)
