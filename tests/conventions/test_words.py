"""Names are words of the field: the glossary, the heads of packages and the code say the same."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.project import ROOT, by_package, name, pyproject, python_files, tree

SOURCE = ROOT / "src" / "gpufleet"
GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| `(?P<module>[^|`]+)` \|$", re.MULTILINE)
PRIVATE_WORDS = frozenset(
    {
        *("caretaker", "census", "court", "desk", "estate", "guise", "heir", "hope", "keeper", "prey"),
        *("looks", "standing", "steward", "succession", "takings", "watchman", "will"),
        *("nobody", "somebody", "whoever"),
    }
)
"""Words that only this project would know the meaning of, and persons that stand for things."""

VAGUE_WORDS = frozenset({"keeping", "look", "looking", "looks", "taking", "telling", "told"})
"""Words of everyday speech that say nothing of what a module or a class is: any of them could be named so."""

PERSONS = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|whomever)\b", re.IGNORECASE)
HE = re.compile(r"\b(he|him|his)\b", re.IGNORECASE)
"""A pod, a node and a queue are things."""

SAID_IN_LOGS = '"nobody"'
"""A value in logs of events that were written before: a log has to say the same when it is run again."""

LEANING = re.compile(r"(The same\b|Same\b|Likewise\b|As above\b|Ditto\b)")
"""Beginnings that mean nothing without the docstring before."""

PACKAGES = [path for path in python_files("src") if path.name == "__init__.py"]
every_package = pytest.mark.parametrize(("package", "paths"), by_package(python_files("src")))
every_package_and_test = pytest.mark.parametrize(
    ("package", "paths"), by_package(python_files("src", "tests"))
)
NAMED = re.compile(r"``([a-z_][\w.]*)``")


def rows() -> list[re.Match[str]]:
    """The rows of the glossary's tables."""
    return list(ROW.finditer(GLOSSARY.read_text(encoding="utf-8")))


def text_of(module: str) -> str:
    """What a module says, or all modules of a package."""
    path = SOURCE / module
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def as_words(text: str) -> str:
    """Code as words in small letters: GangTracker and gang_tracker are both ``gang book``."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\W_]+", " ", apart).lower()


def test_every_row_of_the_glossary_has_a_term_a_meaning_and_a_module() -> None:
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    tables = sum(line.startswith("| term |") for line in lines)
    assert len(rows()) == len(lines) - 2 * tables


def test_a_term_is_defined_once_and_each_table_is_in_order() -> None:
    terms = [row["term"].lower() for row in rows()]
    assert len(terms) == len(set(terms))
    for table in GLOSSARY.read_text(encoding="utf-8").split("\n## ")[1:]:
        here = [row["term"].lower() for row in ROW.finditer(table)]
        assert here == sorted(here)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["term"])
def test_a_term_lives_in_the_module_that_the_glossary_names(row: re.Match[str]) -> None:
    module = SOURCE / row["module"]
    assert module.exists(), f"{row['module']} is not there"
    assert as_words(row["term"]).strip() in as_words(row["module"] + text_of(row["module"]))


def names_in(path: Path) -> set[str]:
    """What a module defines, at any depth."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = {node.name for node in ast.walk(tree(path)) if isinstance(node, kinds)}
    return found | {
        target.id
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def is_sentence(identifier: str) -> bool:
    """The name of a test, which has verbs like any sentence."""
    return identifier.startswith("test_")


SAME_NAME_MAX = 5
"""So many classes of one name a reader keeps apart by their modules; with more, each name says which."""


def test_names_of_classes_that_recur_say_which() -> None:
    modules: dict[str, list[str]] = {}
    for path in python_files("src"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name(path))
    recurring = {one: places for one, places in modules.items() if len(places) > SAME_NAME_MAX}
    assert not recurring


def classes(path: Path) -> list[str]:
    """The classes of a module, at any depth."""
    return [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]


def identifiers(path: Path) -> set[str]:
    """Every name that a module defines, takes or reads, and its own."""
    found = {path.stem}
    for node in ast.walk(tree(path)):
        match node:
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
                found.add(word)
            case ast.Name(id=word) | ast.arg(arg=word) | ast.Attribute(attr=word):
                found.add(word)
            case _:
                pass
    return found


@every_package_and_test
def test_modules_and_classes_are_named_by_what_they_are(package: str, paths: list[Path]) -> None:
    vague = [
        f"{name(path)}: {one} has {words}"
        for path in paths
        for one in (path.stem, *classes(path))
        if (words := set(as_words(one).split()) & VAGUE_WORDS)
    ]
    assert not vague, f"{package}:\n" + "\n".join(vague)


@every_package_and_test
def test_identifiers_have_no_private_words(package: str, paths: list[Path]) -> None:
    private = [
        f"{name(path)}: {one} has {words}"
        for path in paths
        for one in identifiers(path)
        if not is_sentence(one) and (words := set(as_words(one).split()) & PRIVATE_WORDS)
    ]
    assert not private, f"{package}:\n" + "\n".join(private)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings and comments of a module, each with its first line."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.COMMENT)}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in kinds:
                yield token.start[0], token.string


@every_package
def test_texts_name_things_and_no_persons_that_stand_for_them(package: str, paths: list[Path]) -> None:
    found = [
        f"{name(path)}:{line}: {text}"
        for path in paths
        for line, text in texts(path)
        if PERSONS.search(text) and text != SAID_IN_LOGS
    ]
    assert not found, f"{package}:\n" + "\n".join(found)


PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / "designs").rglob("*.md"), *ROOT.glob("*.md")], key=str
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_things_and_no_persons_that_stand_for_them(page: Path) -> None:
    """Names of tests and other code on a page may have such words."""
    text = re.sub(r"`[^`]*`", "``", page.read_text(encoding="utf-8"))
    lines = text.splitlines()
    found = [line for line in lines if PERSONS.search(line) or HE.search(line)]
    assert not found, f"{page.relative_to(ROOT)}: {found}"


@every_package
def test_a_docstring_does_not_begin_with_what_its_neighbour_says(package: str, paths: list[Path]) -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    leaning = [
        f"{name(path)}: {head}"
        for path in paths
        for node in ast.walk(tree(path))
        if isinstance(node, kinds) and LEANING.match(head := ast.get_docstring(node) or "")
    ]
    assert not leaning, f"{package}:\n" + "\n".join(leaning)


def exists(named: str, package: Path) -> bool:
    """Whether a dotted name is a module or a definition, seen from a package, its parent or the root."""
    for base in (package, package.parent, SOURCE, SOURCE.parent):
        path = base.joinpath(*named.split("."))
        if path.is_dir() or path.with_suffix(".py").is_file() or list(base.glob(f"{named}.*")):
            return True
        module = path.parent.with_suffix(".py")
        if module.is_file() and path.name in names_in(module):
            return True
    return any(named in names_in(module) for module in package.glob("*.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=name)
def test_the_head_of_a_package_names_only_what_exists(path: Path) -> None:
    head = ast.get_docstring(tree(path)) or ""
    missing = [named for named in NAMED.findall(head) if not exists(named, path.parent)]
    assert not missing, f"{name(path)} names {missing}, which is not there"


PACKAGE_NAMES = sorted(one.name for one in SOURCE.iterdir() if one.is_dir())
DOTTED = re.compile(rf"``((?:{'|'.join(PACKAGE_NAMES)})(?:\.\w+)+)``")


NO_MODULES = {"model.layers.0.self_attn.q_proj"}
"""Names of other projects that look alike: the parts of a model in a checkpoint."""


def dotted_exists(named: str) -> bool:
    """Whether the longest part of a dotted name that is a module or package knows all the rest of it."""
    parts = named.split(".")
    for length in range(len(parts), 0, -1):
        place = SOURCE.joinpath(*parts[:length])
        module = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
        if module.exists():
            text = module.read_text(encoding="utf-8")
            return all(re.search(rf"\b{re.escape(one)}\b", text) for one in parts[length:])
    return False


def test_every_dotted_name_in_a_text_exists() -> None:
    missing = [
        f"{name(path)} names {named}"
        for path in python_files("src")
        for named in DOTTED.findall(path.read_text(encoding="utf-8"))
        if named not in NO_MODULES and not dotted_exists(named)
    ]
    assert not missing, "\n".join(missing)


def test_a_dotted_name_that_is_gone_is_found() -> None:
    assert dotted_exists("model.model_errors.InputError")
    assert dotted_exists("engine.preempt.overtime")
    assert not dotted_exists("engine.overtime")
    assert not dotted_exists("model.errors.printable")


ARCHITECTURE = ROOT / "docs" / "architecture.md"
HOP = re.compile(r"^(?P<number>\d+)\. `(?P<path>[^`]+)` `(?P<name>[^`]+)`: \S", re.MULTILINE)
WALKS = ARCHITECTURE.read_text(encoding="utf-8").split("\n## ")[1:-1]
HOPS = [hop for walk in WALKS for hop in HOP.finditer(walk)]
HOPS_MAX = 12
"""A walk with more hops is no longer one that a newcomer keeps in mind."""


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.partition("\n")[0])
def test_a_walk_has_at_most_a_dozen_hops_and_each_names_a_place(walk: str) -> None:
    hops = HOP.findall(walk)
    assert len(hops) == len(re.findall(r"^\d+\. ", walk, flags=re.MULTILINE))
    assert [int(number) for number, _, _ in hops] == list(range(1, len(hops) + 1))
    assert 1 < len(hops) <= HOPS_MAX


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: f"{hop['path']} {hop['name']}")
def test_a_hop_of_a_walk_is_where_the_page_says(hop: re.Match[str]) -> None:
    path = SOURCE / hop["path"]
    assert path.is_file(), f"{hop['path']} is not there"
    definitions = tree(path).body
    for part in hop["name"].split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node for node in definitions if isinstance(node, kinds) and node.name == part]
        assert found, f"{hop['path']} has no {hop['name']}"
        definitions = found[0].body


def test_the_page_of_the_architecture_names_each_package_once() -> None:
    table = ARCHITECTURE.read_text(encoding="utf-8").partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`[^|]+) \|", table, flags=re.MULTILINE)
    named = [package for cell in first_cells for package in re.findall(r"`(\w+)`", cell)]
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert sorted(named) == sorted(packages)


def test_every_path_on_the_page_exists() -> None:
    for path in re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", ARCHITECTURE.read_text(encoding="utf-8")):
        assert (SOURCE / path).exists(), path


SOUGHT = ("DRA allocator", "rollout of a driver", "cost ledger", "metrics API", "admission", "web page")
"""What a person looks for by name, with no knowledge of the code but the names of folders and files."""


def places() -> list[tuple[str, str, str]]:
    """The rows of the last table of the page: the thing, its file, and what is to come."""
    table = ARCHITECTURE.read_text(encoding="utf-8").rpartition("\n## ")[2]
    rows = re.findall(r"^\| ([^|]+) \| `([^|`]+)` \| ([^|]*)\|$", table, flags=re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| ", table, flags=re.MULTILINE)) - 2
    return rows


def test_the_page_says_where_each_thing_lives_that_is_looked_for() -> None:
    assert {thing for thing, _, _ in places()} > set(SOUGHT)


@pytest.mark.parametrize("row", places(), ids=lambda row: row[0])
def test_a_thing_lives_in_a_file_that_its_name_leads_to(row: tuple[str, str, str]) -> None:
    thing, path, _ = row
    assert (SOURCE / path).is_file(), f"{path} is not there"
    stems = {word[:5] for word in as_words(thing).split()}
    in_path = {word[:5] for word in as_words(path.removesuffix(".py")).split()}
    assert stems & in_path, f"{thing} is in {path}"


def test_the_shells_to_come_are_those_of_the_design_and_have_their_place_among_the_layers() -> None:
    design = (ROOT / "designs" / "0007-code-structure.md").read_text(encoding="utf-8")
    sentence = re.search(r"Where the next ones go: (.*?) are shells", design, flags=re.DOTALL)
    assert sentence is not None
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "layers")
    in_brackets = [package for line in layers for package in re.findall(r"\((\w+)\)", line)]
    assert sorted(re.findall(r"`(\w+)`", sentence[1])) == sorted(in_brackets)


def test_the_layers_of_the_design_are_those_of_the_contract() -> None:
    design = (ROOT / "designs" / "0007-code-structure.md").read_text(encoding="utf-8")
    first_cells = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", design, flags=re.MULTILINE)
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "layers")
    there = [{one for one in line.split(" | ") if not one.startswith("(")} for line in reversed(layers)]
    assert [set(re.findall(r"`(\w+)`", cell)) for cell in first_cells] == there
