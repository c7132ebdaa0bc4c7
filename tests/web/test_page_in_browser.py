"""The page in Chromium, over documents of a made-up fleet: every view is drawn and accessible, keys alone are
enough, rows stand still, and what a cluster says is text.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest

from gpufleet.web import documents
from tests.chromium import chromium, needs_chromium
from tests.web.sample_fleet import MARKUP
from tests.web.sample_server import SampleServer, serving
from tests.web.watched_page import VIEWS, WatchedPage, address, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium
SCREENS = {"light": (1280, False), "dark": (1280, True), "narrow": (375, False)}
NEW_KEY = "pod/team-vision/comes-now"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def shared() -> Iterator[SampleServer]:
    """A server that no test changes."""
    with serving() as server:
        yield server


@pytest.fixture
def server() -> Iterator[SampleServer]:
    """A server of the test's own."""
    with serving() as server:
        yield server


def work_row(key: str, state: str = "waits", **fields: object) -> documents.WorkRow:
    """A row of work."""
    return msgspec.convert({"key": key, "state": state, "gpus": 1.0, **fields}, documents.WorkRow)


@pytest.fixture(scope="module", params=SCREENS)
def screen(request: pytest.FixtureRequest, browser: "Browser", shared: SampleServer) -> Iterator[WatchedPage]:
    """One page for all views, as a person has it."""
    width_px, is_dark = SCREENS[request.param]
    with watched(browser, shared.url, width_px=width_px, is_dark=is_dark) as seen:
        yield seen


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_and_without_complaint(screen: WatchedPage, view: str) -> None:
    screen.look_at(VIEWS[view])
    assert screen.violations() == []
    assert not screen.is_too_wide()
    assert screen.complaints == []
    assert [one for one in screen.requests if not one.startswith(screen.url)] == []


@pytest.mark.parametrize("look", SCREENS)
def test_answer_help_login_and_a_source_that_is_away_are_accessible(
    browser: "Browser", server: SampleServer, look: str
) -> None:
    width_px, is_dark = SCREENS[look]
    with watched(browser, server.url, width_px=width_px, is_dark=is_dark) as seen:
        seen.look_at("#/plans")
        seen.page.get_by_label("2, 2:like=NODE").fill("2")
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".answer")
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Help").click()
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Close").click()
        server.send(
            "source", documents.Source(documents.SourceState.AWAY, "2026-03-01T11:59:00Z", "it is cut")
        )
        seen.page.wait_for_selector(".banner")
        assert seen.violations() == []
        server.send("end", documents.Refusal("your login is over", login=True))
        seen.page.wait_for_selector(".login")
        assert seen.violations() == []
        assert not seen.is_too_wide()


def test_keys_alone_lead_from_the_map_to_a_pod_and_back(browser: "Browser", shared: SampleServer) -> None:
    with watched(browser, shared.url) as seen:
        seen.look_at("#/fleet")
        press = seen.page.keyboard.press
        press("Tab")
        assert seen.focused() == "Skip to the content"
        press("Enter")
        assert seen.focused() == "content"
        while "Map of the fleet" not in seen.focused():
            press("Tab")
        press("ArrowRight")
        assert seen.said().startswith("gpu-00005, no report, ? of 8 GPUs held")
        press("ArrowRight")
        assert seen.said().startswith("gpu-00006, ready")
        press("Enter")
        seen.page.wait_for_selector("main[data-view=node]")
        assert seen.page.locator("h1").inner_text().startswith("gpu-00006")
        seen.wait_until("document.activeElement.id === 'content'")
        press("3")
        seen.page.wait_for_selector("main[data-view=work] tbody")
        press("/")
        assert seen.focused() == "filter"
        seen.page.keyboard.type("!runs")
        seen.wait_until("!document.querySelector('tbody').textContent.includes('runs')")
        assert "filter=%21runs" in seen.page.url
        press("Escape")
        seen.wait_until("document.querySelector('tbody').textContent.includes('runs')")
        seen.page.locator("tbody th a").first.focus()
        press("ArrowDown")
        press("Enter")
        seen.page.wait_for_selector("main[data-view=work] .reason")
        press("?")
        assert seen.page.locator("dialog[open]").count() == 1
        press("Escape")
        assert seen.page.locator("dialog[open]").count() == 0


def test_single_keys_can_be_switched_off(browser: "Browser", shared: SampleServer) -> None:
    with watched(browser, shared.url) as seen:
        seen.look_at("#/work")
        seen.page.keyboard.press("?")
        seen.page.get_by_label("single keys are on").uncheck()
        seen.page.keyboard.press("Escape")
        seen.page.keyboard.press("1")
        seen.page.keyboard.press("/")
        assert seen.page.evaluate("location.hash") == "#/work"
        assert seen.focused() != "filter"


def test_rows_stand_still_until_a_person_asks_for_new_ones(browser: "Browser", server: SampleServer) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/work")
        seen.page.wait_for_timeout(1200)
        before = seen.rows()
        gone, changed = before[2], before[0]
        server.change("work", work_row(NEW_KEY, "in part"), work_row(changed, "runs", node="gpu-00001"))
        server.change("work", removed=(gone,))
        seen.page.wait_for_selector(".notice >> text=1 new row, 1 row gone")
        assert seen.rows() == before
        assert seen.page.locator(f"tr[data-key='{gone}']").inner_text().count("gone") == 1
        assert "gpu-00001" in seen.page.locator(f"tr[data-key='{changed}']").inner_text()
        assert seen.said() == "1 new row in Work."
        seen.page.get_by_role("button", name="Show").click()
        seen.page.wait_for_selector(f"tr[data-key='{NEW_KEY}']")
        assert gone not in seen.rows()
        assert seen.rows()[0] == NEW_KEY


def test_rows_keep_their_places_when_the_stream_begins_anew(browser: "Browser", server: SampleServer) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/work")
        seen.page.wait_for_timeout(1200)
        before = seen.rows()
        server.cut()
        seen.page.wait_for_selector(".banner")
        server.is_away = False
        seen.page.wait_for_selector(".source.live", timeout=30_000)
        seen.page.wait_for_timeout(1500)
        assert seen.rows() == before
        assert seen.page.locator(".notice.quiet").count() == 1


def test_a_source_that_is_away_is_told_with_its_time(browser: "Browser", server: SampleServer) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/fleet")
        server.send(
            "source",
            documents.Source(
                documents.SourceState.AWAY, "2026-03-01T11:59:20Z", "The API server does not answer."
            ),
        )
        seen.page.wait_for_selector(".banner")
        words = seen.page.locator(".banner").inner_text()
        assert "as of 11:59:20, 40s ago" in words
        assert "The API server does not answer." in words
        assert seen.page.locator(".top .source").inner_text().endswith("as of 11:59:20")
        server.send("source", documents.Source(documents.SourceState.LIVE, "2026-03-01T12:00:00Z"))
        seen.page.wait_for_selector(".source.live")
        assert seen.page.locator(".banner").count() == 0


def test_names_and_messages_that_are_markup_are_text(browser: "Browser", server: SampleServer) -> None:
    bold = "<b>bold</b>"
    with watched(browser, server.url) as seen:
        for place in ("#/work", "#/decisions", VIEWS["work-waits"]):
            seen.look_at(place)
            assert MARKUP in seen.page.locator("main").inner_text()
        server.change("queues", documents.QueueRow(bold, why=MARKUP, pods_waiting=1))
        server.change("nodes", documents.NodeRow("gpu-00001", "ready", MARKUP, bold, bold, gpus=1))
        server.change("work", work_row(f"pod/default/{MARKUP}", queue=bold, why=MARKUP))
        for place in ("#/queues", "#/fleet", "#/work"):
            seen.look_at(place)
            shown = f"document.body.textContent.includes({bold!r})"
            # A row that came while its view was open waits behind a notice, so that rows do not jump.
            seen.wait_until(f"{shown} || document.querySelector('.notice button') !== null")
            if seen.page.locator(".notice button").count():
                seen.page.locator(".notice button").click()
            seen.wait_until(shown)
        assert seen.page.locator("main img, main b").count() == 0
        assert seen.complaints == []


def test_what_is_unknown_is_a_question_mark_and_never_nought(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/fleet")
        server.change("nodes", documents.NodeRow("gpu-00001", "?", "nodes cannot be read"))
        row = seen.page.locator("tr[data-key='gpu-00001']")
        seen.wait_until(
            "document.querySelector(\"tr[data-key='gpu-00001']\").innerText.includes('cannot be read')"
        )
        assert row.locator("td").nth(1).inner_text() == "? / ?"
        assert row.locator("td").nth(2).inner_text() == "?"
        cards = (documents.Card("GPU-a", held_milli=1000), *(documents.Card(f"GPU-{one}") for one in "bcd"))
        server.change("nodes", documents.NodeRow("gpu-00002", "ready", gpus=4, gpus_held=3.0, cards=cards))
        untold = seen.page.locator(".owner", has_text="held, card not told")
        assert untold.locator(".figure").inner_text() == "2"
        server.change("fleet", documents.FleetRow("fleet"))
        seen.wait_until("document.querySelector('.figures').innerText.includes('? of ?')")
        seen.look_at("#/work")
        server.change("work", msgspec.structs.replace(work_row("gang/team-language/pretrain"), gpus=None))
        seen.wait_until("document.querySelector(\"tr[data-key^='gang']\").innerText.includes('?')")


def test_a_plan_is_asked_as_it_is_written_and_a_refusal_names_the_way_out(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/plans")
        seen.page.get_by_label("2, 2:like=NODE").fill("2:like=gpu-00001")
        seen.page.get_by_role("button", name="Another change").click()
        seen.page.get_by_role("combobox").nth(1).select_option("set_quota")
        seen.page.get_by_label("QUEUE.RESOURCE=VALUE").fill("vision.gpu=16")
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".answer")
        assert server.questions == ["add_nodes=2%3Alike%3Dgpu-00001&set_quota=vision.gpu%3D16"]
        assert "1 pod would start" in seen.page.locator(".answer").inner_text()
        assert "Nothing was changed in the cluster" in seen.page.locator(".answer").inner_text()
        seen.page.get_by_label("2, 2:like=NODE").fill("wrong")
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".failed")
        assert "--add-nodes wrong: not a node. Write 2 or 2:like=NODE" in (
            seen.page.locator(".failed").inner_text()
        )


MANIFEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\n"


def test_a_manifest_is_pasted_asked_about_and_refused_with_its_field(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/plans")
        seen.page.get_by_role("combobox").first.select_option("manifest")
        seen.page.get_by_label("Namespace of work").fill("team-vision")
        manifest = seen.page.get_by_label("a manifest: Pods")
        manifest.fill(MANIFEST)
        assert seen.violations() == []
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".answer")
        assert server.manifests == [MANIFEST]
        assert server.questions == ["namespace=team-vision"]
        manifest.fill(f"{MANIFEST}spec: wrong\n")
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".failed")
        assert (
            "the manifest, Pod train, spec.containers[0].resources.limits wrong: not an amount. Write 8"
            in seen.page.locator(".failed").inner_text()
        )


def test_a_manifest_that_is_too_large_is_not_sent(browser: "Browser", server: SampleServer) -> None:
    with watched(browser, server.url) as seen:
        seen.look_at("#/plans")
        seen.page.get_by_role("combobox").first.select_option("manifest")
        seen.page.get_by_label("a manifest: Pods").fill("x" * 600_000)
        seen.page.get_by_role("button", name="Ask").click()
        seen.page.wait_for_selector(".failed")
        assert "gpufleet whatif --submit FILE" in seen.page.locator(".failed").inner_text()
        assert server.manifests == []


@pytest.mark.parametrize("look", SCREENS)
def test_the_map_by_use_says_in_words_what_its_colours_say(
    browser: "Browser", shared: SampleServer, look: str
) -> None:
    width_px, is_dark = SCREENS[look]
    with watched(browser, shared.url, width_px=width_px, is_dark=is_dark) as seen:
        seen.look_at("#/fleet")
        seen.page.get_by_label("use", exact=True).check()
        seen.page.wait_for_selector("text=Mean use of GPUs that are held")
        words = seen.page.locator("main").inner_text()
        assert "measured 12s ago at most" in words
        assert "held and idle" in words
        assert "Use of 2 nodes is not known: their agents do not answer." in words
        assert seen.page.get_by_role("button", name="Use").count() == 1
        # A node that no agent measures is no node at rest.
        assert seen.page.locator("tr[data-key='gpu-00005'] td").nth(2).inner_text() == "?"
        assert seen.page.locator("tr[data-key='gpu-00001'] td").nth(2).inner_text().endswith("%")
        assert seen.violations() == []
        assert not seen.is_too_wide()
        assert seen.complaints == []


@pytest.mark.parametrize(("width_px", "has_bars"), [(1280, True), (375, False)])
def test_signs_of_bars_stand_where_there_are_bars(
    browser: "Browser", shared: SampleServer, width_px: int, has_bars: bool
) -> None:
    with watched(browser, shared.url, width_px=width_px) as seen:
        seen.look_at(VIEWS["queues"])
        assert seen.page.locator(".share").first.is_visible() is has_bars
        assert seen.page.get_by_label("Signs").is_visible() is has_bars


def test_use_that_cannot_be_read_is_said_and_shown_as_unknown(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        server.answers["/api/use"] = None
        seen.look_at("#/fleet")
        seen.page.get_by_label("memory", exact=True).check()
        seen.page.wait_for_selector("text=Use is not known: there is nothing of that name")
        assert seen.page.locator("tr[data-key='gpu-00001'] td").nth(2).inner_text() == "?"


def test_a_login_that_is_over_shows_the_form_and_a_token_leads_back(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        server.refusal = documents.Refusal("you are not logged in", way_out="log in", login=True)
        seen.page.goto(server.url)
        seen.page.wait_for_selector(".login")
        token = seen.page.get_by_label("Token of a service account")
        token.fill("wrong")
        seen.page.get_by_role("button", name="Log in").click()
        seen.page.wait_for_selector("text=does not know this token")
        token.fill("right")
        seen.page.get_by_role("button", name="Log in").click()
        seen.page.wait_for_selector(".figures")


def test_a_page_without_the_token_of_its_url_names_the_way_out(
    browser: "Browser", server: SampleServer
) -> None:
    with watched(browser, server.url) as seen:
        server.refusal = documents.Refusal("you have not logged in", way_out="open the URL that was printed")
        seen.page.goto(server.url)
        seen.page.wait_for_selector(".login")
        assert (
            "You have not logged in. Open the URL that was printed." in seen.page.locator("main").inner_text()
        )
        assert seen.page.locator("main input").count() == 0


@pytest.mark.parametrize("part", ["view_fleet.js", "page.css", "theme.js", "arrival.js"])
def test_a_part_of_the_page_that_does_not_arrive_is_asked_for_again(
    browser: "Browser", shared: SampleServer, part: str
) -> None:
    with watched(browser, shared.url) as seen:
        seen.page.route(f"**/{part}", lambda route: route.abort("connectionaborted"), times=1)
        seen.look_at("#/fleet")
        arrived = "window.gpufleetArrival && window.gpufleetTheme"
        seen.wait_until(f"{arrived} && getComputedStyle(document.body).margin === '0px'")
        assert seen.failures


def test_a_question_that_the_network_cut_is_asked_once_more(browser: "Browser", shared: SampleServer) -> None:
    with watched(browser, shared.url) as seen:
        seen.page.route("**/api/node/*", lambda route: route.abort("connectionaborted"), times=1)
        seen.look_at(VIEWS["node"])
        seen.page.wait_for_selector("text=Conditions")
        assert seen.failures


NOWHERE = (
    address("nowhere"),
    address("queue", "none"),
    address("node", "none"),
    address("work", "pod", "a", "none"),
    address("%ZZ"),
)


@pytest.mark.parametrize("nowhere", NOWHERE)
def test_an_address_of_nothing_says_so(browser: "Browser", shared: SampleServer, nowhere: str) -> None:
    with watched(browser, shared.url) as seen:
        seen.look_at(nowhere)
        assert "There is no" in seen.page.locator("main").inner_text()


def test_the_switch_of_the_theme_lasts(browser: "Browser", shared: SampleServer) -> None:
    with watched(browser, shared.url) as seen:
        seen.look_at("#/queues")
        light = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen.page.get_by_role("button", name="Dark theme").click()
        dark = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert light != dark
        seen.page.reload()
        seen.page.wait_for_selector(".top")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_the_map_of_a_large_fleet_has_all_nodes_and_fits_the_window(browser: "Browser") -> None:
    with serving(10_000) as large, watched(browser, large.url) as seen:
        seen.look_at("#/fleet")
        seen.wait_until("document.querySelector('.pager')?.innerText.includes('of 10,000')")
        nodes = seen.page.locator(".map .group").all_inner_texts()
        assert sum(int(words.split(" nodes")[0].split()[-1].replace(",", "")) for words in nodes) == 10_000
        assert seen.page.locator(".notice.quiet").count() == 1, "rows of the first reading are not new"
        assert seen.page.evaluate("document.querySelector('.map canvas').height <= 1200")
        seen.page.get_by_label("Filter nodes").fill("gpu-09999")
        seen.wait_until("document.querySelectorAll('tbody tr').length === 1")
