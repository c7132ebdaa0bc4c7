"""What all tests share: how Hypothesis searches, which worker runs what, what programs are started with.

No deadline, because the first call of a kernel may compile it. In CI the search is the same every
time, so that a change is judged by itself and not by luck; at home it looks somewhere new.

A shell starts what it runs in the background deaf to SIGINT, and all that is started from there is deaf
too; tests that interrupt programs would then wait in vain.
"""

import gc
import os
import signal
import sys
from typing import Any

import pytest
from hypothesis import settings

from tests.file_scheduler import FileScheduler, dearest_first

settings.register_profile("home", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# gRPC's handlers of fork() may end a child before it becomes the program that a test starts: they poll a file
# of the parent that the child has closed. The tests fork to start programs and never use gRPC in a child.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Hundreds of tests start commands of ours: each would compile again what it imports where no byte code
# is written.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the dearest files where workers share the tests."""
    if hasattr(config, "workerinput"):
        items[:] = [items[number] for number in dearest_first(item.location[0] for item in items)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduler | None:
    """Share the tests out file by file where that is asked for."""
    return FileScheduler(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Take the tests themselves out of the garbage collector's sight.

    Some 30,000 tests with a million objects behind them live to the end of the run. Each full collection
    would go through them all.
    """
    gc.collect()
    gc.freeze()
