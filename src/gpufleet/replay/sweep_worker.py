"""A worker process of ``sweep``: does runs, and ends cleanly when it is told to or left alone.

``terminate`` must not leave half a file beside its place, so it unwinds the run before the process ends. A
worker ends by itself after its parent was killed; it would otherwise wait for work for ever.
"""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import wait

from gpufleet.replay.results import RunResult
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest

# The parent is gone; nothing reads it.
EXIT_CODE = 1
REQUESTS_TO_END = 5
"""One request may be lost; see ``end_with_parent``."""

# So long for a run to unwind before it is asked again.
PATIENCE_S = 2.0


class EndOfWorker(SystemExit):
    """The parent asks this process to end."""


def end_on_request() -> None:
    """Called in a worker before its first run."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    # Last: the pool would tell the story of what is raised from here.
    signal.signal(signal.SIGTERM, raise_end)


def raise_end(_signal: int, _frame: object) -> None:
    """Unwind whatever goes on."""
    raise EndOfWorker(EXIT_CODE)


def end_with_parent() -> None:
    """Wait for the parent's end; then it is this process's too.

    It is asked for several times, because Python drops an exception that a signal raises inside a destructor;
    after that no process is left that could ask again.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        for _ in range(REQUESTS_TO_END):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(PATIENCE_S)
        os._exit(EXIT_CODE)


def run_as_worker(request: RunRequest) -> RunResult:
    """One run; a request to end goes through, where the pool would take it for the run's own error."""
    try:
        return run(request)
    except EndOfWorker:
        os._exit(EXIT_CODE)
