"""The signals by which a person, or a kubelet, ends a program that runs until it is told to end."""

import asyncio
import signal
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT)


def end_on_signal(life: "asyncio.Future[Any]") -> None:
    """Cancel what the program does when such a signal comes; it then ends in its own order."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, life.cancel)
