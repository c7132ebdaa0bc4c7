"""Rows of the view of work: pods that ask for GPUs, and gangs, in the words of ``gpufleet top``.

A pod's own conditions and the engine's words about it may name work that keeps it off. They stand on the pod,
whose owner may read them; what the engine says besides is given to those alone who may read all pods.
"""

import msgspec

from gpufleet.overview.rows.gangs import gang_lines
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import GangLine
from gpufleet.overview.rows.pod_facts import PodFact
from gpufleet.overview.rows.pods import WITHOUT_NODE, WaitingWords, pod_line
from gpufleet.web.documents import WorkRow
from gpufleet.web.rights import Rights


def key_of(kind: str, namespace: str, name: str) -> str:
    """The key of a row of work."""
    return f"{kind}/{namespace}/{name}"


class WorkWords:
    """What the engine told of work that waits, ready to be asked about one pod after the other."""

    def __init__(self, known: Known) -> None:
        engine_report = known.engine_report
        self._known = known
        self._words = WaitingWords(known)
        self._gangs = {
            (gang.namespace, pod): gang.name
            for gang in (() if engine_report is None else engine_report.gangs)
            for pod in gang.pods
        }
        queues = () if engine_report is None else engine_report.queues.queues
        self._starts = {
            (row.reservation.kind, row.reservation.namespace, row.reservation.name): (
                row.reservation.expected_start
            )
            for row in queues
            if row.reservation is not None
        }

    def pod_row(self, fact: PodFact, rights: Rights) -> WorkRow | None:
        """The row of a pod; None where the person may not see it."""
        namespace, name = fact.pod.metadata.namespace, fact.pod.metadata.name
        if not rights.sees(namespace):
            return None
        line = pod_line(fact, self._known, self._words)
        gang = self._gangs.get((namespace, name), "")
        return WorkRow(
            key_of("pod", namespace, name),
            line.state,
            line.queue,
            line.node,
            gang,
            line.gpus,
            line.created,
            line.position,
            line.cause if fact.state in WITHOUT_NODE else "",
            line.why,
            self._starts.get(("pod", namespace, name)),
        )


def gang_rows(known: Known, rights: Rights) -> list[WorkRow]:
    """A row for each gang that the person may see."""
    return [_gang_row(line) for line in gang_lines(known) if rights.sees(line.namespace)]


def _gang_row(line: GangLine) -> WorkRow:
    return WorkRow(
        key_of("gang", line.namespace, line.name),
        line.state,
        line.queue,
        gpus=line.gpus,
        created=line.created,
        position=line.position,
        cause=line.cause,
        why=line.why,
        expected_start=line.expected_start,
        members_placed=line.members_placed,
        members_arrived=line.members_arrived,
        members_min=line.members_min,
    )


def without_engine_words(known: Known) -> Known:
    """What is known, for a person who may not read all pods: the engine's own words may name foreign work."""
    engine_report = known.engine_report
    if engine_report is None:
        return known
    queues = tuple(
        msgspec.structs.replace(
            row,
            waiting=None
            if row.waiting is None
            else tuple(msgspec.structs.replace(one, why="") for one in row.waiting),
        )
        for row in engine_report.queues.queues
    )
    plain = msgspec.structs.replace(
        engine_report, queues=msgspec.structs.replace(engine_report.queues, queues=queues), held={}
    )
    return known.with_report(plain)
