"""The lines of a view from what is known, and what stands above them."""

import datetime as dt
from typing import Any

from gpufleet.model.phrases import counted
from gpufleet.top.rows.gangs import gang_lines
from gpufleet.top.rows.idle import idle_lines
from gpufleet.top.rows.known import Known, Part
from gpufleet.top.rows.lines import NodeLine
from gpufleet.top.rows.nodes import fleet_words, node_lines
from gpufleet.top.rows.pod_facts import PodFact, PodFacts
from gpufleet.top.rows.pods import WITHOUT_NODE, pod_lines
from gpufleet.top.rows.queues import queue_lines
from gpufleet.top.screen.amounts import clock_time, duration
from gpufleet.top.screen.frame import Header

NEEDS_ENGINE = frozenset({"queue", "gang", "pod"})
"""Views whose lines, or their reasons, are the engine's."""
NEEDS_USE = frozenset({"node", "pod", "idle"})


class ViewLines:
    """Lines of any view; keeps what was read of pods from one time to the next."""

    def __init__(self, scheduler_name: str) -> None:
        self._facts = PodFacts(scheduler_name)

    def of(self, view: str, known: Known) -> tuple[list[Any], str]:
        """The lines, and the fleet in a few words."""
        facts = self._facts.of(known.pods.values())
        nodes = node_lines(known, facts)
        return _lines(view, known, facts, nodes), _summary(known, facts, nodes)


def missing(view: str, known: Known) -> list[str]:
    """Sentences about what a view lacks, because it may not be read or does not answer."""
    wanted = [Part.NODES, Part.DEVICES, Part.PODS]
    wanted += [Part.ENGINE] if view in NEEDS_ENGINE else []
    wanted += [Part.USE] if view in NEEDS_USE else []
    found = [known.unread[part] for part in wanted if part in known.unread]
    if view in NEEDS_ENGINE and known.told is not None:
        found += [*known.told.notes, *known.told.queues.notes]
    return found


def header(
    summary: str,
    stale_s: float | None,
    trouble: str,
    problems: list[str],
    now: dt.datetime,
    *,
    is_whole: bool,
) -> Header:
    """What stands above the table. The first of the problems is shown, and how many more there are."""
    if trouble:
        problems = [f"the API server does not answer: {trouble}", *problems]
    problem = problems[0] if problems else ""
    if len(problems) > 1:
        problem = f"({len(problems)}) {problem}"
    if stale_s is None:
        return Header(summary, "reading", problem)
    if stale_s > 0:
        at = clock_time(now - dt.timedelta(seconds=stale_s))
        return Header(summary, f"as of {at}, {duration(stale_s)} ago", problem, is_stale=True)
    return Header(summary, "live" if is_whole else "reading", problem)


def _lines(view: str, known: Known, facts: list[PodFact], nodes: list[NodeLine]) -> list[Any]:
    match view:
        case "node":
            return list(nodes)
        case "pod":
            return list(pod_lines(known, facts))
        case "gang":
            return list(gang_lines(known))
        case "queue":
            return list(queue_lines(known))
    return list(idle_lines(known, facts, nodes))


def _summary(known: Known, facts: list[PodFact], nodes: list[NodeLine]) -> str:
    fleet = fleet_words(nodes) if nodes or known.reads(Part.NODES) else "? nodes"
    if not known.reads(Part.PODS):
        return f"{fleet}, ? pods wait"
    waits = sum(fact.state in WITHOUT_NODE for fact in facts)
    where = f" (namespace {', '.join(known.namespaces)})" if known.namespaces else ""
    return f"{fleet}, {counted(waits, 'pod')} {'waits' if waits == 1 else 'wait'}{where}"
