"""The project's own files, as the tests of its conventions read them."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CODE_FOLDERS = ("src", "tests", "bench", "image", "manual")
TEXT_FOLDERS = (*CODE_FOLDERS, "docs", "designs", "examples", "charts", ".ci")
TEXT_ENDINGS = {"", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
# .git is a file where the checkout is a linked one.
NOT_OURS = {"LICENSE", ".git"}


def python_files(*folders: str) -> list[Path]:
    """Every Python file below these folders, in a fixed order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def by_package(paths: list[Path]) -> list[tuple[str, list[Path]]]:
    """Files by the package that they belong to: a report has 70 packages in place of 2,800 files."""
    packages: dict[str, list[Path]] = {}
    for path in paths:
        parts = path.parent.relative_to(ROOT).parts
        packages.setdefault("/".join(parts[: 3 if parts[0] == "src" else 2]), []).append(path)
    return sorted(packages.items())


def text_files() -> list[Path]:
    """Every text file that we wrote: code, documents and settings."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in TEXT_FOLDERS:
        found += (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(
        path
        for path in found
        if path.suffix in TEXT_ENDINGS and path.name not in NOT_OURS and "__pycache__" not in path.parts
    )


def documents() -> list[Path]:
    """Every Markdown document for users and contributors; designs speak of what is yet to come."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name(path: Path) -> str:
    """The path as a reader knows it, from the root of the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name(path))


@cache
def pyproject() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def commands_quoted(document: Path) -> list[str]:
    """Every piece of code in a document that is a command line: code spans, and lines of code blocks."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return lines + re.findall(r"`([^`\n]+)`", prose)
