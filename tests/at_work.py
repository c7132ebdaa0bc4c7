"""Parts that run beside a story of a test, and are ended with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine


@contextlib.asynccontextmanager
async def at_work(*parts: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """These run during the block; what broke one of them comes out at its end."""
    lives = [asyncio.ensure_future(one) for one in parts]
    try:
        yield
    finally:
        for life in lives:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life
