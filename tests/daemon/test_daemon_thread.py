"""Work in a thread gives its result or its error, and one that is given up harms nobody."""

import asyncio
import threading

import pytest

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.model.model_errors import WorldError


def test_the_result_comes_out() -> None:
    assert asyncio.run(in_daemon_thread(lambda: 7)) == 7


def test_an_error_comes_out_where_the_result_is_awaited() -> None:
    def fails() -> int:
        raise WorldError("it does not answer")

    with pytest.raises(WorldError, match="it does not answer"):
        asyncio.run(in_daemon_thread(fails))


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_comes_when_all_is_over_goes_nowhere() -> None:
    """The loop has ended by then: the thread must not fail by it."""
    goes_on, threads = threading.Event(), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.current_thread())
        goes_on.wait(20)

    async def given_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_daemon_thread(work), 0.05)

    asyncio.run(given_up())
    (thread,) = threads
    assert thread.daemon
    goes_on.set()
    thread.join(20)
    assert not thread.is_alive()
