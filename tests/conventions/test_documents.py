"""What the documents tell a reader to type exists, and what a user sees is described."""

import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import msgspec
import pytest

from gpufleet.cli.main import COMMANDS, LazyCommand
from gpufleet.replay import results
from tests.conventions.project import ROOT, commands_quoted, documents, name

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))


def make_targets(line: str) -> list[str]:
    """The targets that a quoted command line makes; none if it is another command."""
    if not line.startswith("make "):
        return []
    words = shlex.split(line, comments=True)
    return [word for word in words[1:] if "=" not in word and word[0] != "-"]


@pytest.mark.parametrize("document", documents(), ids=name)
def test_make_targets_that_a_document_quotes_exist(document: Path) -> None:
    for line in commands_quoted(document):
        for target in make_targets(line):
            benchmark = target.removeprefix("bench-")
            files = (f"{benchmark}.py", f"{benchmark}/__main__.py")
            exists = target in TARGETS or any((ROOT / "bench" / file).is_file() for file in files)
            assert exists, f"{name(document)} quotes `{line}`, but there is no target {target}"


@pytest.mark.parametrize("document", documents(), ids=name)
def test_commands_and_options_that_a_document_quotes_exist(document: Path) -> None:
    for line in commands_quoted(document):
        words = line.removeprefix(".venv/bin/").partition("#")[0].split()
        if words[:1] != ["gpufleet"] or len(words) == 1 or not words[1][0].islower():
            continue
        assert words[1] in COMMANDS, f"{name(document)} quotes `{line}`, but there is no such command"
        meant = command(words[1])
        if isinstance(meant, click.Group) and words[2:3] and words[2] in meant.commands:
            meant = meant.commands[words[2]]
        known = {option for parameter in meant.params for option in parameter.opts}
        for word in words[2:]:
            option = word.split("=")[0]
            if option.startswith("--") and option != "--help":
                assert option in known, f"{name(document)} quotes `{line}`, but {option} is unknown"


def command(word: str) -> click.Command:
    """The command that stands behind a name."""
    found: click.Command = importlib.import_module(LazyCommand(word, "").module_name).command
    return found


def test_every_target_is_in_make_help() -> None:
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, flags=re.MULTILINE))
    assert explained == TARGETS


STRUCTS = [
    found
    for found in vars(results).values()
    if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == results.__name__
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_the_results_is_described(struct: type[msgspec.Struct]) -> None:
    text = (ROOT / "docs" / "replay-json.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {struct.__name__}\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert section, f"docs/replay-json.md has no section {struct.__name__}"
    described = re.findall(r"^\| `([a-z0-9_]+)` \|", section[1], flags=re.MULTILINE)
    assert described == [field.name for field in msgspec.structs.fields(struct)]


def test_results_document_names_the_layout() -> None:
    text = (ROOT / "docs" / "replay-json.md").read_text(encoding="utf-8")
    assert results.SCHEMA in text


def test_every_page_can_be_reached() -> None:
    settings = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    in_nav = set(re.findall(r'"([^"]+\.md)"', json.dumps(tomllib.loads(settings)["project"]["nav"])))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages == in_nav, "zensical.toml: nav and the pages in docs/ differ"


def test_changelog_has_a_place_for_the_next_change() -> None:
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_files_and_folders_that_contributors_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tops = "bench|charts|data|designs|docs|examples|image|manual|scenarios|src|tests"
    named = set(re.findall(rf"(?:^|`)((?:{tops})/[\w./-]*)", text, flags=re.MULTILINE))
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


# A line that begins with a module and says what it holds: "engine/state/pods, shapes   rows of arrays".
MODULES_LINE = re.compile(r"^([a-z_]+(?:/[a-z_]+)+/?(?:, [a-z_]+)*)(?: {2}|$)", re.MULTILINE)


@pytest.mark.parametrize("design", sorted((ROOT / "designs").glob("*.md")), ids=name)
def test_modules_that_a_design_lists_exist(design: Path) -> None:
    for block in re.findall(r"```\n(.*?)```", design.read_text(encoding="utf-8"), flags=re.DOTALL):
        for listed in MODULES_LINE.findall(block):
            first, *others = listed.rstrip("/").split(", ")
            for module in (first, *(f"{first.rpartition('/')[0]}/{other}" for other in others)):
                path = ROOT / "src/gpufleet" / module
                assert path.is_dir() or path.with_suffix(".py").is_file(), f"{name(design)}: {module}"
