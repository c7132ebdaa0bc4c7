"""Every line of the guides names tests that there are."""

import ast

import pytest

from tests.conventions.project import ROOT, tree
from tests.guides.practice import LINES, Line


@pytest.mark.parametrize("line", LINES, ids=lambda one: one.teaches[:40])
def test_each_line_is_held_by_tests_that_there_are(line: Line) -> None:
    assert line.held_by
    for named in line.held_by:
        file, _, function = named.partition("::")
        found = {
            one.name for one in ast.walk(tree(ROOT / "tests" / file)) if isinstance(one, ast.FunctionDef)
        }
        assert function in found, named
