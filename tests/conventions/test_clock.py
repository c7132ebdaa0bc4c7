"""Agent and devices ask the clock that they are given, so that the simulation can give them another.

Only the assembly of the process may make the machine's clock. ``asyncio.timeout`` is the loop's own time,
which a simulation gives too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.project import ROOT

SOURCE = ROOT / "src/gpufleet"
CLOCKED = (SOURCE / "agent", SOURCE / "devices")
ASSEMBLED = {SOURCE / "agent/process.py"}
"""Where the machine's clock is made."""

CLOCKS = {
    "time",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "asyncio.sleep",
    "MachineClock",
}
LOOPS = {"get_running_loop", "get_event_loop"}


def clock_uses(tree: ast.AST) -> Iterator[str]:
    """The places at which a module asks the machine for the time, or waits by it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"{node.lineno}: import {one.name}" for one in names if one.name == "time")
            case ast.ImportFrom(module=module, names=names):
                found = [one.name for one in names if module == "time" or one.name in CLOCKS]
                yield from (f"{node.lineno}: from {module} import {one}" for one in found)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if f"{owner}.{name}" in CLOCKS:
                yield f"{node.lineno}: {owner}.{name}"
            case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=maker)), attr="time" | "call_later"):
                if maker in LOOPS:
                    yield f"{node.lineno}: the loop's time"


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import sleep",
        "await asyncio.sleep(1)",
        "datetime.now(UTC)",
        "asyncio.get_running_loop().time()",
    ],
)
def test_a_use_of_the_machines_time_is_found(text: str) -> None:
    assert list(clock_uses(ast.parse(text)))


@pytest.mark.parametrize("folder", CLOCKED, ids=lambda folder: folder.name)
def test_agent_and_devices_ask_their_clock_for_the_time(folder: Path) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{use}"
        for path in sorted(folder.rglob("*.py"))
        if path not in ASSEMBLED
        for use in clock_uses(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
