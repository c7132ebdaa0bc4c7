"""The comparison can fail: with any one rule of who makes room broken, some case tells."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.engine.arrays import layout
from gpufleet.engine.instruction import Nominated
from gpufleet.engine.lifecycle.budgets import Budgets
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.preempt import by_node, victim_search
from gpufleet.engine.preempt.by_node import Bound, ByNode, Victims, victims
from gpufleet.engine.preempt.candidates import Candidates, Unit, outside_of_queues
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun
from gpufleet.model.identifiers import NodeName
from gpufleet.model.pod import Pod
from tests.differential import ours as reading
from tests.differential import server
from tests.differential.comparison import furnish
from tests.differential.preemption import ours, theirs
from tests.differential.preemption.classes import VALUES
from tests.differential.preemption.faults import fault
from tests.differential.preemption.generator import make_case
from tests.differential.preemption.outcome import Contest
from tests.differential.preemption.test_preemption import now_us

SEED = 7
CASES = 150


def of_any_priority(state: Any, rank: Any, at_us: int) -> Candidates:
    """Pods of any priority may go."""
    return outside_of_queues(state, rank._replace(priority=max(VALUES.values()) + 1), at_us)


def more_than_needed(search: ByNode, bound: Bound, among: list[Unit]) -> Victims | None:
    """All candidates of a node go, though fewer would do."""
    placements = search._proven(bound.node, among)
    return victims(among, placements) if placements else None


def on_the_worst_node(search: ByNode) -> Victims | None:
    """The first node that does, the dearest first."""
    found = (search._examine(bound) for bound in reversed(search._bounds()))
    return next((one for one in found if one is not None), None)


def no_single(*_: object) -> int:
    """No pod is enough alone."""
    return layout.NOT_SET


@dataclass(frozen=True)
class Break:
    """What is replaced by what."""

    owner: object
    name: str
    by: object


def yes(*_: object) -> bool:
    """Everything may be."""
    return True


def no(*_: object) -> bool:
    """Nothing stands against it."""
    return False


def nowhere(_: object) -> list[int]:
    """No pod that is nominated gets its place."""
    return []


def told_elsewhere(nominations: Nominations, nomination: Nomination) -> list[Nominated]:
    """A place is kept on another node than the one that is told."""
    told = TOLD(nominations, nomination)
    return [msgspec.structs.replace(one, node=NodeName("elsewhere")) for one in told]


TOLD = Nominations.instructions_of
NO_SINGLE = Break(by_node, "cheapest_single", no_single)
BROKEN: Mapping[str, tuple[Break, ...]] = {
    "no eviction at all": (Break(PreemptionSearch, "find", lambda *_: None),),
    "preemptionPolicy Never": (Break(SearchRun, "_may_evict", yes),),
    "only lower priorities": (Break(victim_search, "outside_of_queues", of_any_priority),),
    "budgets": (Break(Budgets, "forbids", no), Break(Budgets, "allow", yes)),
    "no more than needed": (NO_SINGLE, Break(ByNode, "_fewest", more_than_needed)),
    "the cheapest node": (NO_SINGLE, Break(ByNode, "find", on_the_worst_node)),
    "pods that stay": (Break(Pod, "makes_room", property(yes)),),
    "the nominated place": (Break(Nominations, "instructions_of", told_elsewhere),),
    "the place when the victims left": (
        Break(Nominations, "settle", nowhere),
        Break(Nominations, "move", nowhere),
    ),
}


def test_a_broken_rule_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [make_case(SEED, number) for number in range(CASES)]

    async def told() -> list[str]:
        async with server.client_of(cluster) as client:
            await furnish(client, cases)
            read, at_us = await reading.read(client), now_us(client)

            def mine() -> Mapping[str, Any]:
                return ours.outcomes(read, cases, at_us)

            broken = {name: _with(monkeypatch, breaks, mine) for name, breaks in BROKEN.items()}
            other = await theirs.outcomes(cluster, client, cases)
            return [
                name
                for name, found in broken.items()
                if not any(fault(Contest(one, found[one.token], other[one.token])) for one in cases)
            ]

    with server.control_plane(tmp_path) as cluster:
        assert asyncio.run(told()) == []


def _with(
    monkeypatch: pytest.MonkeyPatch, breaks: tuple[Break, ...], mine: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """What gpufleet does with these rules broken."""
    with monkeypatch.context() as patch:
        for one in breaks:
            patch.setattr(one.owner, one.name, one.by)
        return mine()
