"""Style that is a test: sizes, names, docstrings, leftovers and paths.

A rule that no machine checks is gone within a month. An exception stands in a table with its
reason; the table may only shrink or be argued for in review.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.conventions.project import CODE_FOLDERS, ROOT, by_package, name, python_files, text_files, tree

MODULE_LINES = 500
FUNCTION_LINES = 70
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
"""Reasons, by path and by "path::function"."""

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
# Written in two parts, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
PATHS_OF_ONE_MACHINE = re.compile(r"(?<![\w.~}])/(wo" + r"rk|tm" + r"p|ro" + r"ot)/")

CODE = python_files(*CODE_FOLDERS)
every_package = pytest.mark.parametrize(("package", "paths"), by_package(CODE))


@every_package
def test_modules_are_short_enough_to_be_read_at_once(package: str, paths: list[Path]) -> None:
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    long = {path: lines for path, lines in sizes.items() if lines > MODULE_LINES and path not in LONG_MODULES}
    assert not long, f"{package}: more than {MODULE_LINES} lines; split by what the parts are about: {long}"


@every_package
def test_functions_are_short_enough_to_be_held_in_mind(package: str, paths: list[Path]) -> None:
    long = [
        f"{name(path)}::{node.name} has {lines} lines, more than {FUNCTION_LINES}"
        for path in paths
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
        and f"{name(path)}::{node.name}" not in LONG_FUNCTIONS
    ]
    assert not long, f"{package}:\n" + "\n".join(long)


@every_package
def test_modules_say_what_they_are_for(package: str, paths: list[Path]) -> None:
    silent = [name(path) for path in paths if not ast.get_docstring(tree(path))]
    assert not silent, f"{package}: no docstring in {silent}"


@every_package
def test_modules_are_named_after_a_concept(package: str, paths: list[Path]) -> None:
    vague = {
        name(path): words
        for path in paths
        if (
            words := VAGUE_NAMES.intersection(
                part.removesuffix(".py") for part in path.relative_to(ROOT).parts
            )
        )
    }
    assert not vague, f"{package}: name the concept instead of {vague}"


def test_exceptions_are_still_needed() -> None:
    for place in LONG_MODULES:
        path = ROOT / place
        assert len(path.read_text(encoding="utf-8").splitlines()) > MODULE_LINES, place
    for place in LONG_FUNCTIONS:
        file, function = place.split("::")
        assert any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == function
            and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
            for node in ast.walk(tree(ROOT / file))
        ), place


def test_nothing_is_left_for_later_in_the_code() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in CODE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVERS.search(line)
    ]
    assert not found, "finish it, or open an issue and delete the marker:\n" + "\n".join(found)


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if PATHS_OF_ONE_MACHINE.search(line)
    ]
    assert not found, "\n".join(found)
