"""Pulls images to the node that work will run which is to start there, before it starts.

    NodeData's annotation -> images of allowed registries that the node has not -> pulls, one by one

A pod's author writes the names of images, so only those of registries that the operator named are pulled, as
anyone may pull them: no secret of a pod is read. A name that is taken back ends its pull, and a pull that
fails is tried again a minute later.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.wishes import Wishes
from gpufleet.kube.clock import Clock
from gpufleet.kube.objects.node_data import IMAGE, DataEntry
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
AGAIN_S = 60.0
"""How soon a pull that failed is tried again."""


class Runtime(Protocol):
    """The container runtime."""

    async def list(self) -> Sequence[DataEntry]:
        """The images of the node. Raises WorldError."""
        ...

    async def pull(self, name: str) -> None:
        """Pull an image. Raises WorldError."""
        ...


class ImagePuller:
    """Follows the wishes while ``run`` runs. ``report`` is called once the node has an image more."""

    def __init__(
        self,
        wishes: Wishes,
        runtime: Runtime,
        registries: Sequence[str],
        clock: Clock,
        report: Callable[[], None],
        rate: CopyRate,
    ) -> None:
        self.problem = ""
        """Why an image that is wanted is not pulled; empty where all is well."""
        self._wishes = wishes
        self._runtime = runtime
        # With the slash: example.com/team does not stand for example.com/team-b.
        self._registries = tuple(f"{one.rstrip('/')}/" for one in registries)
        self._clock = clock
        self._report = report
        self._rate = rate
        self._news = asyncio.Event()
        wishes.heard.append(self._news.set)

    async def run(self) -> None:
        """Pull what is wanted until cancelled."""
        await self._wishes.wait_listed()
        while True:
            self._news.clear()
            wish = self._wishes.wish
            self.problem = "; ".join(await self._turn())
            if self._wishes.wish != wish:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._news.wait()

    def may_pull(self, name: str) -> bool:
        """True for an image of a registry that the operator named."""
        return name.startswith(self._registries)

    async def _turn(self) -> list[str]:
        """Pull what lacks now. Returns what failed."""
        problems = []
        for name in [one for one in self._wishes.wish.images if self.may_pull(one)]:
            if name not in self._wishes.wish.images:
                continue
            try:
                if await self._size_bytes(name) is None:
                    await self._pull(name)
            except WorldError as error:
                LOG.warning("an image is not pulled", extra={"image": name, "problem": str(error)})
                problems.append(f"the image {name} is not pulled: {error}")
        return problems

    async def _pull(self, name: str) -> None:
        """One pull, ended where the image is not wanted any more. Raises WorldError."""
        began_s = self._clock.monotonic_s()
        pull = asyncio.ensure_future(self._runtime.pull(name))
        try:
            while not pull.done():
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait((pull, news), return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if not pull.done() and name not in self._wishes.wish.images:
                    LOG.info(
                        "a pull is given up: nothing that is to start here runs it", extra={"image": name}
                    )
                    return
                if not pull.done():
                    self._news.clear()
            pull.result()
        finally:
            pull.cancel()
        took_s = self._clock.monotonic_s() - began_s
        size_bytes = await self._size_bytes(name)
        if size_bytes is not None:
            self._rate.copied(size_bytes, took_s)
        LOG.info("an image is pulled", extra={"image": name, "took_s": round(took_s, 1)})
        self._report()

    async def _size_bytes(self, name: str) -> int | None:
        """The size of an image of the node; None where it is not there. Raises WorldError."""
        rest, _, digest = name.partition("@")
        ask = DataAsk(f"{IMAGE}/{rest}", digest)
        for one in await self._runtime.list():
            if f"{IMAGE}/{one.name}" == ask.name and one.revision == digest:
                return one.size_bytes
        return None
