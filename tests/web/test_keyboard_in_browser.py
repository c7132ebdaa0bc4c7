"""The page with a keyboard alone: on every address Tab leads to all that can be used, and is seen."""

from collections.abc import Iterator

import pytest

from tests.chromium import chromium, needs_chromium
from tests.web.sample_server import serving
from tests.web.watched_page import VIEWS, WatchedPage, watched

pytestmark = needs_chromium

KEYS = {
    "1": "fleet",
    "2": "queues",
    "3": "work",
    "4": "plans",
    "5": "decisions",
    "6": "problems",
    "7": "projects",
}
"""As the page's help has them."""

MARK = """() => {
  const kinds = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const all = [...document.querySelectorAll(kinds)];
  const used = all.filter((one) => {
    if (one.disabled || one.closest("dialog:not([open])") || !one.checkVisibility()) return false;
    // Of radio buttons, Tab leads to the one that is chosen, and arrows to the others.
    return one.type !== "radio" || one.checked;
  });
  used.forEach((one, place) => { one.dataset.place = place; });
  return used.map((one) => one.outerHTML.slice(0, 100));
}"""
"""Numbers what can be used."""

FOCUSED = """() => {
  const one = document.activeElement;
  const box = one.getBoundingClientRect();
  const style = getComputedStyle(one);
  const isMarked = style.outlineStyle !== "none" || style.boxShadow !== "none";
  const isInside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return { place: one.dataset.place ?? null, isSeen: isMarked && isInside };
}"""
"""What has the focus: its number, and whether a person sees that it has it."""

MORE = 3
"""Presses beyond one for each: the window itself takes some."""


DRAWN_TWICE = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
})"""
"""Two frames after a change of the view the page gives the focus to its content."""


@pytest.fixture(scope="module")
def seen() -> Iterator[WatchedPage]:
    """One page for all views, as a person has it."""
    with chromium() as browser, serving() as server, watched(browser, server.url) as page:
        yield page


def reached(seen: WatchedPage, count: int) -> tuple[set[int], set[int]]:
    """The numbers of what Tab leads to, and of what has the focus unseen."""
    found: set[int] = set()
    unseen: set[int] = set()
    for _ in range(count + MORE):
        seen.page.keyboard.press("Tab")
        focused = seen.page.evaluate(FOCUSED)
        if focused["place"] is not None:
            found.add(int(focused["place"]))
            if not focused["isSeen"]:
                unseen.add(int(focused["place"]))
    return found, unseen


@pytest.mark.parametrize("view", VIEWS)
def test_tab_alone_leads_to_all_that_can_be_used(seen: WatchedPage, view: str) -> None:
    seen.look_at(VIEWS[view])
    seen.page.evaluate(DRAWN_TWICE)
    usable = seen.page.evaluate(MARK)
    found, unseen = reached(seen, len(usable))
    assert [usable[place] for place in sorted(set(range(len(usable))) - found)] == []
    assert [usable[place] for place in sorted(unseen)] == []


@pytest.mark.parametrize("key", KEYS)
def test_a_single_key_leads_to_each_view(seen: WatchedPage, key: str) -> None:
    seen.look_at(VIEWS["queue"])
    seen.page.keyboard.press(key)
    seen.page.wait_for_selector(f"main[data-view={KEYS[key]}] h1")
    seen.wait_until("document.activeElement.id === 'content'")
