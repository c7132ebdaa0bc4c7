"""The signals by which a person, or a kubelet, ends a program that runs until it is told to end."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT)


def end_on_signal(life: "asyncio.Future[Any]") -> None:
    """Cancel what the program does when such a signal comes; it then ends in its own order."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, life.cancel)


async def live_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Do what the program does until it is done or such a signal comes; raises what the work raises."""
    life = asyncio.ensure_future(work)
    end_on_signal(life)
    with contextlib.suppress(asyncio.CancelledError):
        await life
