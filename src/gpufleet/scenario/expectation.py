"""Compares what was decided with what a scenario expects; each difference in a sentence.

Only what is named is compared: of work that a scenario does not mention, every outcome is accepted.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from gpufleet.scenario.amounts import microseconds
from gpufleet.scenario.reasons import why_waiting
from gpufleet.scenario.scenario_engine import Decision, ScenarioEngine
from gpufleet.scenario.scenario_errors import ScenarioError
from gpufleet.scenario.text import ExpectText, ReservedText

UNKNOWN = "unknown"


class Difference(msgspec.Struct, frozen=True):
    """One thing that came out otherwise. ``field`` is where the file expects it."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        """The difference as a sentence."""
        return f"{self.field}: expected {self.expected}, found {self.found}"


def differences(
    expected: ExpectText,
    scenario_engine: ScenarioEngine,
    decided: list[Decision],
    field: str,
    levels: list[str],
) -> list[Difference]:
    """Everything that differs at this moment; ``decided`` is what was decided since the last one."""
    found = [*_running(expected, scenario_engine, field), *_waiting(expected, scenario_engine, field)]
    found += _domains(expected, scenario_engine, field, levels)
    if expected.started is not None:
        started = list(
            dict.fromkeys(_work_of(scenario_engine, one.started) for one in decided if one.started)
        )
        found += _differ(f"{field}.started", expected.started, started)
    if expected.evicted is not None:
        evicted = dict(Counter(_work_of(scenario_engine, one.evicted) for one in decided if one.evicted))
        found += _differ(f"{field}.evicted", expected.evicted, evicted)
    if expected.reserved is not None:
        found += _reserved(expected.reserved, scenario_engine, f"{field}.reserved")
    if expected.rejected is not None:
        rejected = [one for one in decided if one.rejected]
        found += _rejected(expected.rejected, rejected, f"{field}.rejected")
    return found


def _work_of(scenario_engine: ScenarioEngine, pod: str) -> str:
    """The name of the work that a pod belongs to, which may have ended since."""
    for work in scenario_engine.work.values():
        if any(one.name == pod for one in work.pods):
            return work.name
    return pod


def _differ(field: str, expected: object, found: object) -> list[Difference]:
    return [] if expected == found else [Difference(field, str(expected), str(found))]


def _known(scenario_engine: ScenarioEngine, name: str, field: str) -> None:
    names = {pod.name for work in scenario_engine.work.values() for pod in work.pods}
    if name not in scenario_engine.work and name not in names:
        raise ScenarioError("no such work", field=field, value=name, expected="work of this scenario")


def _running(expected: ExpectText, scenario_engine: ScenarioEngine, field: str) -> Iterator[Difference]:
    for name, where in expected.running.items():
        place = f"{field}.running.{name}"
        _known(scenario_engine, name, place)
        nodes = sorted(
            scenario_engine.places[uid].node
            for uid in scenario_engine.uids_of(name)
            if uid in scenario_engine.places
        )
        if isinstance(where, int):
            yield from _differ(place, where, len(nodes))
        else:
            yield from _differ(place, sorted([where] if isinstance(where, str) else where), nodes)


def _waiting(expected: ExpectText, scenario_engine: ScenarioEngine, field: str) -> Iterator[Difference]:
    for name, words in expected.waiting.items():
        place = f"{field}.waiting.{name}"
        _known(scenario_engine, name, place)
        waiting = [uid for uid in scenario_engine.uids_of(name) if uid not in scenario_engine.places]
        if not waiting:
            yield Difference(place, "that it waits", "that all of it has a place")
            continue
        reason = why_waiting(scenario_engine, waiting[0])
        if words not in reason:
            yield Difference(place, repr(words), repr(reason))


def _domains(
    expected: ExpectText, scenario_engine: ScenarioEngine, field: str, levels: list[str]
) -> Iterator[Difference]:
    for name, wanted in expected.domains.items():
        _known(scenario_engine, name, f"{field}.domains.{name}")
        nodes = [
            scenario_engine.places[uid].node
            for uid in scenario_engine.uids_of(name)
            if uid in scenario_engine.places
        ]
        for level, count in wanted.items():
            place = f"{field}.domains.{name}.{level}"
            if level not in levels:
                raise ScenarioError("no such level", field=place, value=level, expected=", ".join(levels))
            # Domains of one name below different ones, such as racks of two zones, are different domains.
            above = levels[: levels.index(level) + 1]
            paths = {tuple(scenario_engine.nodes[node].labels.get(one) for one in above) for node in nodes}
            yield from _differ(place, count, len(paths))


def _reserved(
    expected: dict[str, ReservedText], scenario_engine: ScenarioEngine, field: str
) -> Iterator[Difference]:
    found = {one.name: one for one in scenario_engine.engine.reservations()}
    for name in expected:
        _known(scenario_engine, name, f"{field}.{name}")
    yield from _differ(field, sorted(expected), sorted(found))
    for name in sorted(set(expected) & set(found)):
        wanted, one = expected[name], found[name]
        start_us = None if wanted.start == UNKNOWN else microseconds(wanted.start, f"{field}.{name}.start")
        if start_us != one.start_us:
            start = UNKNOWN if one.start_us is None else f"{one.start_us / 1e6:g}s"
            yield Difference(f"{field}.{name}.start", wanted.start, start)
        if wanted.nodes is not None:
            nodes = sorted({str(place.node) for place in one.places})
            yield from _differ(f"{field}.{name}.nodes", sorted(wanted.nodes), nodes)


def _rejected(expected: list[str], found: list[Decision], field: str) -> Iterator[Difference]:
    if len(expected) != len(found):
        yield Difference(field, f"{len(expected)} of them", str([one.reason for one in found]))
        return
    # In their order: the engine refuses events in the order in which it is told of them.
    for number, (words, one) in enumerate(zip(expected, found, strict=True)):
        if words not in one.reason:
            yield Difference(f"{field}[{number}]", repr(words), repr(one.reason))
