"""Work done in a copy of the whole process: nothing that it changes is changed here.

A fork copies every object of the simulated world at once, the scheduler's engine and trackers too. So a
judge can let the live scheduler take its next decision without the run's knowing of it.
"""

import gc
import os
import traceback
import warnings
from collections.abc import Callable

from gpufleet.simulation.simulation_errors import SimulationError

FAILED = b"!"
DONE = b"="


def in_a_copy(work: Callable[[], bytes]) -> bytes:
    """What ``work`` returns in a copy of this process. Raises SimulationError with its trace if it fails."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads (of a test runner) do not exist in the copy, and nothing in it waits for them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(writing, work)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if answer[:1] != DONE:
        raise SimulationError(answer[1:].decode() or "a copy of the process ended without an answer")
    return answer[1:]


def _answer(writing: int, work: Callable[[], bytes]) -> None:
    """Write the answer and end the copy, without the clean-up that belongs to the original."""
    # A collection would touch, and so really copy, every page with objects in it.
    gc.disable()
    try:
        with os.fdopen(writing, "wb") as pipe:
            try:
                pipe.write(DONE + work())
            except BaseException:  # noqa: BLE001  it is raised again in the original
                pipe.write(FAILED + traceback.format_exc().encode())
    finally:
        os._exit(0)
