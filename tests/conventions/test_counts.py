"""A number agrees with its noun: "1 node", not "1 nodes"."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conventions.project import ROOT

FOLDERS = ("admission", "doctor", "drain", "engine", "explain", "migration", "operator", "plan", "whatif")
"""What these folders say is read by people, of fleets that may have one of anything."""

NOUNS = (
    "agents|alerts|budgets|claims|devices|GPUs|instances|jobs|members|metrics|monitors|namespaces|nodes|pods|"
    "queues|restarts|volumes|webhooks"
)
PLURAL = re.compile(rf" (?:[A-Za-z]+ )?(?:{NOUNS})\b")


def counts_before_plurals(tree: ast.AST) -> Iterator[int]:
    """The lines of strings in which a number stands before a noun that is always plural."""
    # The two strings of `... if count == 1 else ...` are chosen by the number already.
    branches = (
        branch for one in ast.walk(tree) if isinstance(one, ast.IfExp) for branch in (one.body, one.orelse)
    )
    chosen = {id(one) for one in branches}
    for one in ast.walk(tree):
        if not isinstance(one, ast.JoinedStr) or id(one) in chosen:
            continue
        for value, text in zip(one.values, one.values[1:], strict=False):
            is_count = isinstance(value, ast.FormattedValue) and _is_count(value.value)
            if is_count and isinstance(text, ast.Constant) and PLURAL.match(str(text.value)):
                yield one.lineno


def _is_count(value: ast.expr) -> bool:
    """Whether the value is a number by its looks: a length, a sum, or a bare name or attribute."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in {"len", "sum"}
    return isinstance(value, ast.Name | ast.Attribute | ast.BinOp)


def test_a_number_before_a_plural_is_found() -> None:
    found = counts_before_plurals(ast.parse('f"of {count} nodes"; f"{len(found)} GPU pods wait"'))
    assert len(list(found)) == 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_number_agrees_with_its_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "src/gpufleet" / folder).rglob("*.py"))
        for line in counts_before_plurals(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, f"write counted() or subject() of model.phrases: {found}"
