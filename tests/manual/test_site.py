"""The built documentation, opened from files: search, links, width, and the page with all pages."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from manual.one_page import PRINTED, Page, main, pages
from tests.chromium import chromium, needs_chromium
from tests.conventions.project import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

READERS = ["Start", "Run a fleet", "Run work", "Understand", "Reference"]
WIDTHS_PX = (1280, 400)
SEARCHED = "reservation"
# What a page of the theme shows beside the text, such as the list of headings, has links of its own kind.
LINK = re.compile(r'<a [^>]*href="([^"]+)"')
NAME = re.compile(r'\s(?:id|name)="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, elsewhere."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for included in ("src", "CONTRIBUTING.md"):
        (folder / included).symlink_to(ROOT / included)
    build = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    main(folder / "build" / "docs")
    return folder / "build" / "docs"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def listed() -> list[Page]:
    """The pages of the navigation."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    return list(pages(settings["project"]["nav"]))


def test_each_page_is_for_one_kind_of_reader(listed: list[Page]) -> None:
    assert list(dict.fromkeys(page.group for page in listed)) == READERS
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", index, flags=re.MULTILINE)[: len(READERS)] == READERS


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in site.glob("*.html")}
    names = {page: set(NAME.findall(text)) for page, text in texts.items()}
    # The page for addresses that are not there is shown at any of them: its links begin at the root.
    del texts["404.html"]
    broken = []
    for page, text in texts.items():
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = unescape(link).removeprefix("./").partition("#")
            # What is no page is the site's folder itself, or a picture.
            there = names.get(target or page, {""} if (site / target).exists() else set())
            if not there or anchor not in there | {""}:
                broken.append(f"{page}: {link}")
    assert broken == []


def test_one_page_has_every_page_in_order_and_links_within_itself(site: Path, listed: list[Page]) -> None:
    text = (site / PRINTED).read_text(encoding="utf-8")
    assert re.findall(r'<section id="([^"]+)" class="printed"', text) == [page.name for page in listed]
    printed = text.partition("<article")[2].partition("</article>")[0]
    names = NAME.findall(printed)
    assert sorted(names) == sorted(set(names)), "a name stands twice"
    assert "queues--states" in names
    elsewhere = [link for link in LINK.findall(printed) if not re.match(r"#|[a-z]+:", link)]
    assert elsewhere == []


@needs_chromium
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_search_works_from_files_and_asks_the_network_for_nothing(
    browser: "Browser", site: Path, width_px: int
) -> None:
    page = browser.new_page(viewport={"width": width_px, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type(SEARCHED)
    page.get_by_text(re.compile(r"^\d+ results$")).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/reservations.html*")
    assert [url for url in asked if not url.startswith("file:")] == []
    page.close()


@needs_chromium
def test_no_page_scrolls_sideways_on_a_phone(browser: "Browser", site: Path) -> None:
    # The theme's scripts change no width, and take half a second a page.
    page = browser.new_page(viewport={"width": 400, "height": 900}, java_script_enabled=False)
    wide = []
    for path in sorted(site.glob("*.html")):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > 400:
            wide.append(path.name)
    assert wide == []
    page.close()
