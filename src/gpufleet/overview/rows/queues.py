"""Lines of the view of queues, for one resource; the figures and words of ``gpufleet queues``."""

from gpufleet.explain.queue_answer import QueueRow
from gpufleet.explain.queue_phrases import plain, queue_words
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import QueueLine

GPU = "gpu"


def queue_lines(known: Known) -> list[QueueLine]:
    """A line for each queue, parents before their children."""
    if known.engine_report is None:
        return []
    rows = known.engine_report.queues.queues
    depths: dict[str, int] = {}
    found = []
    for row in rows:
        depths[row.name] = depths.get(row.parent or "", -1) + 1
        found.append(_line(row, depths[row.name]))
    return found


def _line(row: QueueRow, depth: int) -> QueueLine:
    use = row.resource(GPU)
    held = row.reservation
    oldest = min((one.created for one in row.waiting or () if one.created), default="")
    return QueueLine(
        row.name,
        depth,
        GPU,
        None if use is None else plain(use.used),
        None if use is None else plain(use.quota),
        None if use is None else plain(use.borrowed),
        None if use is None else plain(use.lent),
        None if use is None or use.fair_share is None else plain(use.fair_share),
        row.pods_waiting,
        oldest,
        _why(row),
        row.active,
        None if held is None else held.expected_start,
    )


def _why(row: QueueRow) -> str:
    """What is wrong, else who waits for what, and of a queue that is not in force its problem in full."""
    problem = f": {row.problems[0].message}" if row.problems and not row.active else ""
    return f"{queue_words(row)}{problem}"
