"""How long steps took the last time on this machine, which is the best guess of how long they will take.

One small file of JSON in the cache, by the name of the step. A file that is lost or cannot be read costs
nothing but the guess: then the estimate that comes with gpufleet counts.
"""

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import NamedTuple

LARGEST_FILE_BYTES = 1 << 20
"""A step has some 50 bytes."""

STEPS_MAX = 500
"""Steps are named after versions, which go; the oldest are forgotten."""

LEAST_S = 0.5
"""No step that is worth telling is over so soon."""


class Step(NamedTuple):
    """A long step by a name that stays, and how long it took on a machine of two cores.

    One that took less than ``least_s`` found its work done, or most of it, and says nothing about the next
    time.
    """

    name: str
    estimate_s: float
    least_s: float = LEAST_S


def expected_s(step: Step) -> float:
    """How long the step will probably take."""
    found = _recorded().get(step.name)
    return found if isinstance(found, int | float) and 0 < found < 1e6 else step.estimate_s


def record(step: Step, took_s: float) -> None:
    """Keep how long the step took; says nothing if that cannot be kept."""
    if took_s < step.least_s:
        return
    known = _recorded()
    # To the end of the order: where there are too many, the steps that ran longest ago are dropped.
    known.pop(step.name, None)
    known[step.name] = round(took_s, 1)
    path = _file()
    # Several programs may write at once; a reader always finds a whole file.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(dict(list(known.items())[-STEPS_MAX:]), indent=1), encoding="utf-8")
        beside.replace(path)


def _file() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if named.startswith("/") else Path("~/.cache").expanduser()
    return base / "gpufleet" / "durations.json"


def _recorded() -> dict[str, object]:
    try:
        with _file().open("rb") as file:
            found = json.loads(file.read(LARGEST_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
