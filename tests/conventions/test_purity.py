"""What import-linter cannot see: an engine that decides the same on every machine.

Imports of clocks, chance and environment are refused in pyproject.toml; here are the ways to be
different from run to run without an import.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.project import ROOT, by_package, name, python_files, tree

AT_SET_UP = {
    "src/gpufleet/engine/arrays/compiled.py": "reads the engine's sources to name the kernels' cache",
    "src/gpufleet/engine/compile.py": "is run at set-up, by a person, before anything is decided",
}
PURE = [
    path for path in python_files("src/gpufleet/model", "src/gpufleet/engine") if name(path) not in AT_SET_UP
]
CALLS_REFUSED = {
    "hash": "differs from process to process for text",
    "id": "is an address",
    "input": "asks a person",
    "open": "reads or writes a file",
    "print": "writes; the shells do that",
}
OPTIONS_REFUSED = {
    "fastmath": "reorders floating point, differently on each processor",
    "parallel": "adds up in an order that differs from run to run",
}


def problems(node: ast.AST) -> list[str]:
    """What is wrong with this one node of a module."""
    match node:
        case ast.Call(func=ast.Name(id=called)) if called in CALLS_REFUSED:
            return [f"{called}() {CALLS_REFUSED[called]}"]
        case ast.keyword(arg=str(option), value=value) if option in OPTIONS_REFUSED:
            harmless = isinstance(value, ast.Constant) and value.value is False
            return [] if harmless else [f"{option} {OPTIONS_REFUSED[option]}"]
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
            return ["numpy.random is chance: take the source of chance as an argument"]
        case ast.Attribute(value=ast.Name(id="numba"), attr="prange"):
            return ["prange adds up in an order that differs from run to run"]
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if is_unordered(iterated):
            return ["the order of a set differs from run to run: sort it"]
    return []


def is_unordered(node: ast.expr) -> bool:
    """Whether this expression makes a set."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
    return False


def deciding_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below this one, but for how a value hashes itself: that decides nothing."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and child.name == "__hash__"):
            yield child
            yield from deciding_nodes(child)


@pytest.mark.parametrize(("package", "paths"), by_package(PURE))
def test_modules_decide_by_their_arguments_alone(package: str, paths: list[Path]) -> None:
    found = [
        f"{name(path)}:{getattr(node, 'lineno', '?')}: {problem}"
        for path in paths
        for node in deciding_nodes(tree(path))
        for problem in problems(node)
    ]
    assert not found, f"{package}:\n" + "\n".join(found)


def test_exceptions_are_still_there() -> None:
    assert all((ROOT / path).is_file() for path in AT_SET_UP)


@pytest.mark.parametrize(
    "line",
    [
        "hash(name)",
        "numba.njit(fastmath=True)",
        "numba.njit(parallel=flag)",
        "np.random.default_rng()",
        "for row in numba.prange(9): pass",
        "for name in set(names): pass",
        "[name for name in {first, second}]",
    ],
)
def test_the_check_finds(line: str) -> None:
    assert any(problems(node) for node in deciding_nodes(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "numba.njit(fastmath=False)",
        "for name in sorted(set(names)): pass",
        "def __hash__(self): return hash(self.name)",
    ],
)
def test_the_check_lets_pass(line: str) -> None:
    assert not any(problems(node) for node in deciding_nodes(ast.parse(line)))
