"""What one event of a pod costs the ledger's daemon: read, taken, and written to the file of its month."""

import tempfile
import time
from pathlib import Path

from gpufleet.kube import resources
from gpufleet.ledger.following import VersionDecoder
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.months import month_of
from gpufleet.ledger.open_months import OpenMonths
from tests.ledger import recording

EVENTS = 20_000
PER_ROUND = 100
"""So many come in the ten seconds that the daemon gathers: ten a second."""


def cpu_ms_per_event() -> float:
    """Milliseconds of a core for an event; the objects are what a real API server told."""
    decoder = VersionDecoder(resources.PODS)
    objects = [bytes(line.object) for line in recording.lines() if line.kind == "Pod" and line.uids == ()]
    pods = [raw for raw in objects if raw != b"null"]
    uids = [decoder.decode(raw).version.uid.encode() for raw in pods]  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory(prefix="gpufleet-pay-") as folder:
        files = OpenMonths(MonthFiles(Path(folder), "cluster"))
        files.begin(month_of(recording.lines()[0].heard_us))
        began_s = time.process_time()
        for first in range(0, EVENTS, PER_ROUND):
            news = IntervalLog()
            for number in range(first, first + PER_ROUND):
                place = number % len(pods)
                another = f"{number // len(pods):036}".encode()
                raw = pods[place].replace(uids[place], another)
                news.take(decoder.decode(raw).version)  # type: ignore[arg-type]
            files.add(news)
        return 1000 * (time.process_time() - began_s) / EVENTS
