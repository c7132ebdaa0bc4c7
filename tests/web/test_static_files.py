"""The files of the page: small enough, with nothing from elsewhere, nothing inline, and nothing that reads
text as markup.
"""

import gzip
import hashlib
import re
from pathlib import Path

import msgspec
import pytest

from gpufleet.replay.report.palette import PAGE_INKS, POLICY_INKS
from tests.conventions.project import ROOT

STATIC = ROOT / "src/gpufleet/web/static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
OWN_SCRIPTS = [path for path in SCRIPTS if path.parent == STATIC]
STYLES = sorted(STATIC.glob("*.css"))
PAGE = (STATIC / "index.html").read_text(encoding="utf-8")
SCRIPT_BYTES_MAX = 60_000
"""Of all script together, compressed as a server does it: what the page may cost on a slow line."""
VENDORED = ("src/gpufleet/web/static/vendor", "tests/web/vendor")
LINE_LIMIT = 500
"""Lines of a module, as in Python."""


class Vendored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of others as their package has it."""

    file: str
    package: str
    version: str
    path: str
    licence: str
    licence_file: str
    sha256: str
    licence_sha256: str


def vendored() -> list[tuple[Path, Vendored]]:
    """Each file of others, with its folder."""
    found = []
    for folder in VENDORED:
        listed = (ROOT / folder / "vendored.json").read_bytes()
        found += [(ROOT / folder, one) for one in msgspec.json.decode(listed, type=list[Vendored])]
    return found


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_all_script_together_is_within_its_budget() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 6)) for path in SCRIPTS}
    assert len(sizes) > 10
    assert sum(sizes.values()) <= SCRIPT_BYTES_MAX, sizes


@pytest.mark.parametrize(("folder", "one"), vendored(), ids=lambda value: getattr(value, "file", ""))
def test_files_of_others_are_those_that_are_listed(folder: Path, one: Vendored) -> None:
    assert digest(folder / one.file) == one.sha256
    assert digest(folder / one.licence_file) == one.licence_sha256


@pytest.mark.parametrize("folder", VENDORED)
def test_every_file_of_others_is_listed_with_its_licence(folder: str) -> None:
    listed = {name for at, one in vendored() if at == ROOT / folder for name in (one.file, one.licence_file)}
    assert {path.name for path in (ROOT / folder).iterdir()} == listed | {"vendored.json"}


@pytest.mark.parametrize(("_", "one"), vendored(), ids=lambda value: getattr(value, "file", ""))
def test_files_of_others_have_their_reason_in_the_documents(_: Path, one: Vendored) -> None:
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    assert f"`{one.package}`" in text
    assert one.version in text


def test_nothing_is_inline() -> None:
    """The content security policy of the server refuses it."""
    assert not re.search(r"<script(?![^>]*\ssrc=)", PAGE)
    assert "<style" not in PAGE
    assert not re.search(r"\s(style|on[a-z]+)=", PAGE)


@pytest.mark.parametrize("path", [STATIC / "index.html", *OWN_SCRIPTS, *STYLES], ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(https?:)?//[\w-]+\.", text)


@pytest.mark.parametrize("path", OWN_SCRIPTS, ids=lambda path: path.name)
def test_text_is_never_read_as_markup_or_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function", text
    )


@pytest.mark.parametrize("path", OWN_SCRIPTS, ids=lambda path: path.name)
def test_imports_are_of_files_that_are_there(path: Path) -> None:
    named = re.findall(r'^import .*?"(\./[^"]+)";', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [one for one in named if not (STATIC / one).is_file()] == []


def imported(path: Path) -> set[Path]:
    """The modules that one needs, and those that these need."""
    named = re.findall(r'(?:from|import) "(\./[^"]+)";', path.read_text(encoding="utf-8"))
    direct = {(path.parent / one).resolve() for one in named}
    return direct.union(*(imported(one) for one in direct if one.parent == STATIC))


def test_the_page_names_each_module_so_that_all_are_fetched_at_once() -> None:
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)" />', PAGE)
    assert len(named) == len(set(named))
    assert {STATIC / one for one in named} == imported(STATIC / "start.js")


@pytest.mark.parametrize("path", OWN_SCRIPTS, ids=lambda path: path.name)
def test_a_module_says_what_it_is_for_and_is_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= LINE_LIMIT


def variables(block: str) -> dict[str, str]:
    """The colours that a block of the style sheet sets."""
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))


def test_colours_are_those_of_the_replay_report() -> None:
    light, dark = re.findall(
        r"^:root[^{]*\{(.*?)^\}", (STATIC / "page.css").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for is_dark, block in enumerate((light, dark)):
        found = variables(block)
        named = {name: inks[is_dark] for name, inks in PAGE_INKS.items() if name in found}
        assert len(named) > 6
        assert {name: found[name] for name in named} == named
        # The tenth and the eighth colour of the report are left out: they are near others that a map shows.
        inks = [ink[is_dark] for ink in POLICY_INKS]
        assert [found[f"ink-{place}"] for place in range(8)] == [*inks[:7], inks[8]]


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG 2, from 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


GRAPHICS = (
    *("free", "unknown", "bad", "hatch", "strong-edge", "ink-other", "ink-none", "ink-foreign"),
    *(f"ink-{place}" for place in range(8)),
)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", GRAPHICS)
def test_signs_of_the_map_stand_out_from_it(name: str, is_dark: bool) -> None:
    """A canvas has no text that axe could measure: WCAG asks 3 to 1 of graphics."""
    blocks = re.findall(
        r"^:root[^{]*\{(.*?)^\}", (STATIC / "page.css").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    found = variables(blocks[is_dark])
    assert contrast(found[name], found["surface"]) >= 3
