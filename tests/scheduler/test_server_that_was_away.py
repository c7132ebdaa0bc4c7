"""After the API server was away scheduling goes on within 30 s of its return, however long that was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from tests.scheduler.world import World, in_world

GOES_ON_WITHIN_S = 30.0


class Switched:
    """A way to a server that can be killed: nothing connects, and what is open breaks."""

    def __init__(self, inner: Transport, up: asyncio.Event, gone: asyncio.Event) -> None:
        self.inner = inner
        self.up = up
        self.gone = gone

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """A request, while the server is there."""
        self.check()
        return await self.inner.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, until the server goes."""
        self.check()
        return Breaking(await self.inner.open(request, timeout_s=timeout_s), self.gone)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()

    def check(self) -> None:
        """Raises TransportError while the server is away."""
        if not self.up.is_set():
            raise TransportError("connection refused", reached=False)


class Breaking:
    """A stream that breaks when the server goes."""

    def __init__(self, inner: ResponseStream, gone: asyncio.Event) -> None:
        self.inner = inner
        self.gone = gone
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """What comes, until the server goes."""
        stream = self.inner.chunks()
        going = asyncio.ensure_future(self.gone.wait())
        try:
            while True:
                coming = asyncio.ensure_future(_next(stream))
                await asyncio.wait((coming, going), return_when=asyncio.FIRST_COMPLETED)
                if going.done():
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
                    raise TransportError("connection reset by peer", reached=True)
                chunk = coming.result()
                if chunk is None:
                    return
                yield chunk
        finally:
            going.cancel()

    async def close(self) -> None:
        """Close the stream beneath."""
        await self.inner.close()


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    """The next chunk; None at the end."""
    async for chunk in stream:
        return chunk
    return None


@pytest.mark.parametrize("away_s", [1.0, 8.0, 12.0, 60.0, 600.0])
def test_scheduling_goes_on_within_30_s_of_the_return(away_s: float) -> None:
    async def story(world: World) -> None:
        await world.stop()
        up, gone = asyncio.Event(), asyncio.Event()
        up.set()

        async def supervised() -> None:
            """Starts the scheduler again whenever it ends, as a Deployment does."""
            while True:
                with contextlib.suppress(LeadershipLost):
                    await world.start(Switched(world.transport(), up, gone))
                await world.clock.sleep(5.0)

        supervisor = asyncio.create_task(supervised())
        world.node("a")
        world.pod("before")
        await world.clock.sleep(30.0)
        assert world.node_of("before") == "a"
        up.clear()
        gone.set()
        await world.clock.sleep(away_s)
        world.pod("meanwhile")
        gone.clear()
        up.set()
        world.pod("after")
        await world.clock.sleep(GOES_ON_WITHIN_S)
        assert [world.node_of(name) for name in ("meanwhile", "after")] == ["a", "a"]
        assert len({world.devices_of(name)[0] for name in ("before", "meanwhile", "after")}) == 3
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)
        world.life = None

    in_world(story)
