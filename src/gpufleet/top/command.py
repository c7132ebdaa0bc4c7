"""``gpufleet top`` as two functions: ``watch`` shows it live on a terminal, ``read_once`` shows it once."""

import asyncio
import sys

from gpufleet.top.once import read_once
from gpufleet.top.request import TopRequest

__all__ = ["read_once", "watch"]


def watch(request: TopRequest, *, colored: bool) -> int:
    """Show it live on the terminal of standard input and output; returns the exit code."""
    from gpufleet.top.live.session import run

    return asyncio.run(run(request, reads=sys.stdin.fileno(), writes=sys.stdout.fileno(), colored=colored))
