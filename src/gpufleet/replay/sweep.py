"""Many runs side by side: every policy on every seed, over the cores of this machine.

Runs are independent and come back in any order; the result lists them in the order asked for. What
ends a sweep early, a Ctrl-C or a failure outside, keeps the runs that are done and names those that
are missing. ``sweep_worker`` is the other side; ``ray_sweep`` spreads the same requests over a cluster.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Protocol

from gpufleet.model.model_errors import WorldError
from gpufleet.replay.results import RunResult
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep_worker import PATIENCE_S, REQUESTS_TO_END, end_on_request, run_as_worker


class Listener(Protocol):
    """Hears how a sweep goes on."""

    def arrived(self, request: RunRequest, tasks: int) -> None:
        """``tasks`` tasks of a run have arrived (only told by runs in this process)."""
        ...

    def finished(self, request: RunRequest) -> None:
        """A run is done."""
        ...


class RunOutcome:
    """The results so far, by the place of their request, and what ended the sweep early."""

    def __init__(self, requests: Sequence[RunRequest]) -> None:
        self.requests = list(requests)
        self.results: dict[int, RunResult] = {}
        self.interrupted = False
        self.failure: WorldError | None = None

    def runs(self) -> list[RunResult]:
        """Finished runs in the order asked for."""
        return [self.results[place] for place in sorted(self.results)]

    def missing(self) -> list[str]:
        """Titles of the runs that are not there."""
        return [request.title for place, request in enumerate(self.requests) if place not in self.results]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Whatever ends the block early from outside is noted, and what is done stays done."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        except WorldError as error:
            self.failure = error


def sweep(requests: Sequence[RunRequest], jobs: int, listener: Listener) -> RunOutcome:
    """Do all runs, at most ``jobs`` at a time."""
    outcome = RunOutcome(requests)
    with outcome.kept():
        if min(jobs, len(requests)) <= 1:
            run_here(outcome, listener)
        else:
            run_side_by_side(outcome, min(jobs, len(requests)), listener)
    return outcome


def run_here(outcome: RunOutcome, listener: Listener) -> None:
    """One after the other in this process."""
    for place, request in enumerate(outcome.requests):
        outcome.results[place] = run(request, progress_of(request, listener))
        listener.finished(request)


def progress_of(request: RunRequest, listener: Listener) -> Callable[[int], None]:
    """What a run calls to tell how far it is."""
    return lambda tasks: listener.arrived(request, tasks)


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes; if the block is left by an error they are ended, and gone after it."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=end_on_request)
    try:
        yield pool
    except BaseException:
        processes = list(getattr(pool, "_processes", {}).values())
        manager: Thread | None = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False, cancel_futures=True)
        end(processes)
        # The pool's own thread waits for the same processes. While it has seen one end and not yet
        # noted so, that one passes for alive here, and for a child left behind in our caller.
        if manager is not None:
            manager.join(PATIENCE_S)
        raise
    pool.shutdown()


def end(processes: Sequence[BaseProcess]) -> None:
    """End worker processes and wait until they are gone.

    They are asked several times, because Python drops an exception that a signal raises inside a destructor;
    a worker that does not listen at all is killed.
    """
    for _ in range(REQUESTS_TO_END):
        for process in processes:
            process.terminate()
        until = time.monotonic() + PATIENCE_S
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
        if not any(process.is_alive() for process in processes):
            return
    for process in processes:
        process.kill()
        process.join()


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """A Ctrl-C waits until the block ends. Processes started inside never hear of one.

    It goes to all processes of a terminal; a worker that it finds while it is still importing would die with
    a story on the screen, and so would a worker that its parent leaves half started. That the parent ends its
    workers is enough.
    """
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    # What is blocked here is blocked in processes started here; our own other threads still hear it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
    if noted and before is not signal.SIG_IGN:
        raise KeyboardInterrupt


def run_side_by_side(outcome: RunOutcome, jobs: int, listener: Listener) -> None:
    """Do all runs of a sweep in ``jobs`` worker processes."""
    with workers(jobs) as pool:
        with interrupts_held_back():
            places: dict[Future[RunResult], int] = {
                pool.submit(run_as_worker, request): place for place, request in enumerate(outcome.requests)
            }
        for future in as_completed(places):
            place = places[future]
            try:
                outcome.results[place] = future.result()
            except BrokenProcessPool as error:
                raise WorldError(
                    "a worker process ended by itself, perhaps for want of memory; try fewer --jobs"
                ) from error
            listener.finished(outcome.requests[place])
