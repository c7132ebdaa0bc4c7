"""Many runs side by side: every policy on every seed, over the cores of this machine.

Runs are independent and come back in any order; the result lists them in the order asked for. An
interrupt keeps the runs that are done and names those that are missing. ``ray_sweep`` spreads the
same requests over a cluster.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Protocol

from gpufleet.replay.results import RunResult
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest


class Listener(Protocol):
    """Hears how a sweep goes on."""

    def arrived(self, request: RunRequest, tasks: int) -> None:
        """So many tasks of a run have arrived (only told by runs in this process)."""
        ...

    def finished(self, request: RunRequest) -> None:
        """A run is done."""
        ...


class Outcome:
    """The results so far, by the place of their request."""

    def __init__(self, requests: Sequence[RunRequest]) -> None:
        self.requests = list(requests)
        self.results: dict[int, RunResult] = {}
        self.interrupted = False

    def runs(self) -> list[RunResult]:
        """Finished runs in the order asked for."""
        return [self.results[place] for place in sorted(self.results)]

    def missing(self) -> list[str]:
        """Titles of the runs that are not there."""
        return [request.title for place, request in enumerate(self.requests) if place not in self.results]


def sweep(requests: Sequence[RunRequest], jobs: int, listener: Listener) -> Outcome:
    """Do all runs, at most ``jobs`` at a time; a Ctrl-C ends the sweep and keeps what is done."""
    outcome = Outcome(requests)
    try:
        if min(jobs, len(requests)) <= 1:
            run_here(outcome, listener)
        else:
            run_side_by_side(outcome, min(jobs, len(requests)), listener)
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def run_here(outcome: Outcome, listener: Listener) -> None:
    """One after the other in this process."""
    for place, request in enumerate(outcome.requests):
        outcome.results[place] = run(request, progress_of(request, listener))
        listener.finished(request)


def progress_of(request: RunRequest, listener: Listener) -> Callable[[int], None]:
    """What a run calls to tell how far it is."""
    return lambda tasks: listener.arrived(request, tasks)


def ignore_interrupts() -> None:
    """In a worker: a Ctrl-C is the parent's business, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes, ended at once if the block is left by an error."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=ignore_interrupts)
    try:
        yield pool
    except BaseException:
        processes = list(getattr(pool, "_processes", {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def run_side_by_side(outcome: Outcome, jobs: int, listener: Listener) -> None:
    """In worker processes."""
    with workers(jobs) as pool:
        places: dict[Future[RunResult], int] = {
            pool.submit(run, request): place for place, request in enumerate(outcome.requests)
        }
        for future in as_completed(places):
            place = places[future]
            outcome.results[place] = future.result()
            listener.finished(outcome.requests[place])
