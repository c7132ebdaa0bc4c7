"""The lines of a view from what is known, and what stands above them."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

from gpufleet.model.labels import LabelSelector
from gpufleet.model.phrases import counted
from gpufleet.overview.rows.gangs import gang_lines
from gpufleet.overview.rows.idle import idle_lines
from gpufleet.overview.rows.known import FleetPart, Known
from gpufleet.overview.rows.lines import NodeLine
from gpufleet.overview.rows.nodes import NodeLines, Rights, fleet_words, rights_of
from gpufleet.overview.rows.pod_facts import PodFact, PodFacts
from gpufleet.overview.rows.pods import WITHOUT_NODE, pod_lines
from gpufleet.overview.rows.queues import queue_lines
from gpufleet.top.labelled import WITHOUT_LABELS, labelled
from gpufleet.top.screen.amounts import clock_time, duration
from gpufleet.top.screen.frame import Header

NEEDS_ENGINE = frozenset({"queue", "gang", "pod"})
"""Views whose lines, or their reasons, are the engine's."""
NEEDS_USE = frozenset({"node", "pod", "idle"})


class ViewLines:
    """Lines of any view; keeps what was read of objects from one time to the next."""

    def __init__(self, scheduler_name: str, selector: LabelSelector | None = None) -> None:
        self._selector = selector
        self._facts = PodFacts(scheduler_name)
        self._nodes = NodeLines()
        self._seen: tuple[int, Rights] | None = None
        self._read: list[PodFact] = []
        self._said = ""

    def of(self, view: str, known: Known, changes: int | None = None) -> tuple[list[Any], str]:
        """The lines, and the fleet in a few words.

        ``changes`` grows with each change of an object. Where it has not grown, only measured use is looked
        at: a large fleet is measured every two seconds, and keys wait meanwhile.
        """
        seen = None if changes is None else (changes, rights_of(known))
        if seen is not None and seen == self._seen:
            nodes = self._nodes.measured(known)
        else:
            self._read = self._facts.of(known.pods.values(), known.devices)
            nodes = self._nodes.of(known, self._read)
            self._said = _summary(known, self._read, nodes)
        self._seen = seen
        lines = _lines(view, known, self._read, nodes)
        if self._selector is not None and view not in WITHOUT_LABELS:
            lines = labelled(lines, known, self._selector)
        return lines, self._said


def missing(view: str, known: Known) -> list[str]:
    """Sentences about what a view lacks, because it may not be read or does not answer."""
    wanted = [FleetPart.NODES, FleetPart.DEVICES, FleetPart.PODS]
    wanted += [FleetPart.ENGINE] if view in NEEDS_ENGINE else []
    wanted += [FleetPart.USE] if view in NEEDS_USE else []
    found = [known.unread[part] for part in wanted if part in known.unread]
    if view in NEEDS_ENGINE and known.engine_report is not None:
        found += [*known.engine_report.notes, *known.engine_report.queues.notes]
    return found


@dataclass(frozen=True)
class Freshness:
    """How old what is shown is: None before anything was read, 0 while it is followed; and why it is not
    current.
    """

    stale_s: float | None
    trouble: str
    is_whole: bool


def header(summary: str, fresh: Freshness, problems: list[str], notes: list[str], now: dt.datetime) -> Header:
    """What stands above the table. The first problem or note is shown, and how many there are."""
    if fresh.trouble:
        problems = [f"not current: {fresh.trouble}", *problems]
    problem, note = _first(problems), _first(notes)
    if fresh.stale_s is not None and fresh.stale_s > 0:
        at = clock_time(now - dt.timedelta(seconds=fresh.stale_s))
        return Header(summary, f"as of {at}, {duration(fresh.stale_s)} ago", problem, note, is_stale=True)
    is_live = fresh.stale_s is not None and fresh.is_whole
    return Header(summary, "live" if is_live else "reading", problem, note, is_whole=fresh.is_whole)


def _first(sentences: list[str]) -> str:
    """The first sentence, and of how many."""
    if len(sentences) < 2:
        return "".join(sentences)
    return f"(1 of {len(sentences)}) {sentences[0]}"


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
    fleet = fleet_words(nodes) if nodes or known.reads(FleetPart.NODES) else "? nodes"
    if not known.reads(FleetPart.PODS):
        return f"{fleet}, ? pods wait"
    waits = sum(fact.state in WITHOUT_NODE for fact in facts)
    where = f" (namespace {', '.join(known.namespaces)})" if known.namespaces else ""
    return f"{fleet}, {counted(waits, 'pod')} {'waits' if waits == 1 else 'wait'}{where}"
