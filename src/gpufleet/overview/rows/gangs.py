"""Lines of the view of gangs: how many members are there, and why a gang waits."""

from gpufleet.explain.queue_answer import ReservationRow, WaitingRow
from gpufleet.explain.queue_phrases import waiting_words
from gpufleet.overview.rows.engine_report import GangReport
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import GangLine
from gpufleet.overview.rows.pod_facts import MILLI
from gpufleet.overview.rows.pods import written

Waiting = dict[tuple[str, str, str], tuple[str, WaitingRow]]


def gang_lines(known: Known) -> list[GangLine]:
    """A line for each gang that the engine knows; none where it was not asked."""
    engine_report = known.engine_report
    if engine_report is None:
        return []
    waiting = engine_report.waiting()
    reserved = [row.reservation for row in engine_report.queues.queues if row.reservation is not None]
    starts = {(one.namespace, one.name): one for one in reserved if one.kind == "gang"}
    return [
        _line(gang, known, waiting, starts) for gang in engine_report.gangs if known.shows(gang.namespace)
    ]


def _line(
    gang: GangReport, known: Known, waiting: Waiting, starts: dict[tuple[str, str], ReservationRow]
) -> GangLine:
    queue, row = waiting.get(("gang", gang.namespace, gang.name), ("", None))
    held = starts.get((gang.namespace, gang.name))
    cause = "gang-malformed" if gang.problem else gang.cause if row is None else row.cause or row.reason
    return GangLine(
        gang.namespace,
        gang.name,
        _state(gang),
        queue or gang.queue,
        gang.members_placed,
        gang.members_arrived,
        gang.members_min,
        gang.gpus_milli / MILLI,
        gang.created,
        None if row is None else row.position,
        cause,
        gang.problem or _why(gang, known, row),
        None if held is None else held.expected_start,
    )


def _state(gang: GangReport) -> str:
    if gang.members_placed >= max(gang.members_min, 1):
        return "runs"
    if gang.members_placed:
        return "in part"
    return "held" if gang.problem else "waits"


def _why(gang: GangReport, known: Known, row: WaitingRow | None) -> str:
    """What a scheduler wrote into a member that waits, else the engine's reason."""
    if row is None and gang.members_placed >= gang.members_min:
        return ""
    for name in gang.pods:
        pod = known.pods.get((gang.namespace, name))
        if pod is not None and not pod.spec.node_name and written(pod):
            return written(pod)
    return "" if row is None else waiting_words(row)
