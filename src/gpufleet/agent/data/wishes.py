"""What the scheduler wants on this node: the annotation of its NodeData, followed for all who act on it."""

import logging
from collections.abc import Callable

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.codec.data_wishes import NO_WISH, DataWish, read_wish
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODE_DATA
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)


class _NodeData(Structure, frozen=True):
    metadata: Metadata


class Wishes:
    """Holds the newest wish while ``run`` runs, and calls each of ``heard`` when it changes."""

    def __init__(self, client: Client, node: str) -> None:
        self.wish: DataWish = NO_WISH
        self.heard: list[Callable[[], None]] = []
        self._node = node
        self._mirror = Mirror(
            client,
            NODE_DATA,
            msgspec.json.Decoder(_NodeData),
            self._changed,
            optional=True,
            selection=Selection(fields=f"metadata.name={node}"),
        )

    async def run(self) -> None:
        """Follow the annotation until cancelled."""
        await self._mirror.run()

    async def wait_listed(self) -> None:
        """Return once it is known what is wanted."""
        await self._mirror.wait_listed()

    def _changed(self, _: Change[_NodeData]) -> None:
        found = self._mirror.get(self._node)
        try:
            wish = NO_WISH if found is None else read_wish(found.metadata.annotations)
        except InputError as error:
            LOG.warning("what is wanted on the node cannot be read", extra={"problem": str(error)})
            wish = NO_WISH
        if wish != self.wish:
            self.wish = wish
            for one in self.heard:
                one()
