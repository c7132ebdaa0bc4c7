"""Each numeric constant says why it has this value, in a comment or in the string below it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.project import by_package, name, python_files

UNITS = frozenset(
    {
        *("DAY_S", "GIB", "HOUR_S", "MEBIBYTE", "MIB", "MINUTE_US", "NANO", "NANO_PER_MILLI", "PERCENT"),
        *("SECOND_US", "US_PER_S"),
    }
)
"""One unit in another: the name is the reason."""

ENUMERATIONS = frozenset({"IntEnum", "IntFlag", "Flag", "Enum"})
"""Members are told apart by their numbers, and the docstring of the class says what they are for."""

REASONS = "src/gpufleet/engine/node_reasons/"
"""The bit of a reason is an identity; ``table`` refuses two that are alike."""


def is_number(value: ast.expr) -> bool:
    """Whether an expression is a number, or arithmetic with one."""
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) or is_number(right)
        case _:
            return False


def is_enumeration(owner: ast.AST) -> bool:
    """Whether the values in this body are members of an enumeration."""
    bases = owner.bases if isinstance(owner, ast.ClassDef) else []
    return any(ast.unparse(base).rpartition(".")[2] in ENUMERATIONS for base in bases)


def constants(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The numeric constants of a module and of its classes, with their statements."""
    for owner in ast.walk(module):
        if not isinstance(owner, ast.Module | ast.ClassDef) or is_enumeration(owner):
            continue
        for one in owner.body:
            match one:
                case ast.Assign(targets=[ast.Name(id=word)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=word), value=ast.expr() as value):
                    pass
                case _:
                    continue
            if word.isupper() and is_number(value) and word not in UNITS:
                yield word, one


def is_explained(lines: list[str], first: int, last: int) -> bool:
    """Whether a comment or a string speaks of the lines from ``first`` to ``last``, counted from 1.

    A comment may stand on the line or above the block of the constant, and a string below that block: a
    block ends where a line is empty.
    """
    if any("#" in line for line in lines[first - 1 : last]):
        return True
    above = first - 2
    while above >= 0 and lines[above].strip():
        if lines[above].lstrip().startswith("#"):
            return True
        above -= 1
    below = last
    while below < len(lines) and lines[below].strip():
        if lines[below].lstrip().startswith('"""'):
            return True
        below += 1
    return False


def unexplained(text: str) -> list[str]:
    """The constants of a module that no comment and no string speaks of."""
    lines = text.splitlines()
    return [
        word
        for word, one in constants(ast.parse(text))
        if not is_explained(lines, one.lineno, one.end_lineno or one.lineno)
    ]


def unexplained_in(path: Path) -> list[str]:
    """The constants of a file that nothing speaks of; of the reasons, bit and height stand in their table."""
    found = unexplained(path.read_text(encoding="utf-8"))
    return [word for word in found if not (name(path).startswith(REASONS) and word in {"BIT", "HEIGHT"})]


@pytest.mark.parametrize(("package", "paths"), by_package(python_files("src")))
def test_numeric_constants_say_why(package: str, paths: list[Path]) -> None:
    found = {name(path): words for path in paths if (words := unexplained_in(path))}
    assert not found, f"{package}: say why they have this value: {found}"


def test_a_constant_without_a_why_is_noticed() -> None:
    assert unexplained("LIMIT = 5\n") == ["LIMIT"]
    assert unexplained('"""Head."""\n\nLIMIT_S: float = 2 * 5.0\nNAME = "x"\n') == ["LIMIT_S"]
    assert unexplained("class Part(IntEnum):\n    HEAD = 0\n\n\nclass Other:\n    MORE = 3\n") == ["MORE"]
    assert not unexplained('FIRST = 1\nSECOND = 2\n"""Why both."""\n')
    assert not unexplained("# Why.\nFIRST = 1\n")
    assert not unexplained("FIRST = 1  # why\n")
