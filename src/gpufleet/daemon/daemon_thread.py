"""Work that waits for a server or a disk, in a thread that the end of the program does not wait for."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Value = TypeVar("Value")


async def in_daemon_thread(work: Callable[[], Value]) -> Value:
    """The result of the work, or what it raises.

    A question that is given up leaves the thread at work, and its answer goes nowhere.
    """
    future: Future[Value] = Future()
    # Running: a question that is given up cannot cancel it, and the thread has where to put its answer.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it comes out where the result is awaited
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
