"""Cases of other projects' own tests, restated as data: tables in ``oracles`` folders beside the tests.

Each case says what their test expects (``theirs``). Where gpufleet decides otherwise on purpose, the case has
that too (``ours``), with the reason (``because``).
"""

from pathlib import Path
from typing import Any

import msgspec


def published_cases(beside: str, table: str) -> dict[str, list[dict[str, Any]]]:
    """The sections of a table, which lies in the folder ``oracles`` beside a test."""
    found: dict[str, list[dict[str, Any]]] = msgspec.yaml.decode(
        (Path(beside).parent / "oracles" / f"{table}.yaml").read_bytes()
    )
    return found


def expected(case: dict[str, Any]) -> Any:
    """What their test expects, or what is chosen here; a choice has a reason and is another one."""
    if "ours" not in case:
        assert "because" not in case
        return case["theirs"]
    assert case["because"]
    assert case["ours"] != case["theirs"]
    return case["ours"]


def name_of(case: dict[str, Any]) -> str:
    """The case in words, as the name of its test."""
    return str(case["case"])
