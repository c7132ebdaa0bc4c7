"""One kind of the API: listed page by page, so that its first lines show at once, then followed by a watch.

What was listed is handed to a mirror (``kube.mirror``), which keeps it current. A kind that may not be listed
is asked for again now and then, as rights may come.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import (
    Appeared,
    Change,
    Changed,
    Listed,
    Object,
    Unreadable,
    UnreadableGone,
    Vanished,
)
from gpufleet.kube.objects.node import Node
from gpufleet.kube.replica import Identity
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Forbidden, Gone, NotFound
from gpufleet.overview.rows.known import Key

AGAIN_S = 2.0
"""After a list that failed."""
REFUSED_AGAIN_S = 30.0
"""After a list that rights forbid, or of a kind that the server does not serve."""
STALE_AFTER_S = 4.0
"""A watch that has just ended is opened anew within this time."""


Heard = Callable[[Kind, Key], None]
"""What is told of each object that appeared, changed or is gone."""


def unheard(_kind: Kind, _key: Key) -> None:
    """Take no notice of single objects."""


class KindReader(Generic[Object]):
    """The objects of one kind, of one namespace or, with "", of all."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        meant: type[Object],
        *,
        namespace: str = "",
        optional: bool = False,
        heard: Heard = unheard,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.refused = ""
        """Why it may not be listed."""
        self.problem = ""
        """Why the last list failed."""
        self._client = client
        self._decoder: msgspec.json.Decoder[Object] = msgspec.json.Decoder(meant)
        self._optional = optional
        self._tell = heard
        self._partial: dict[Key, Object] = {}
        self._mirror: Mirror[Object] | None = None
        self._listed_at_s: float | None = None
        self.changes = 0
        """How often something changed."""

    @property
    def objects(self) -> Mapping[Key, Object]:
        """What is known so far. Do not keep it over an await."""
        return self._partial if self._mirror is None else self._mirror.objects

    @property
    def unreadable(self) -> Mapping[Key, Identity]:
        """The objects whose newest version cannot be read."""
        return {} if self._mirror is None else self._mirror.unreadable

    @property
    def is_whole(self) -> bool:
        """Whether it was listed, or is known to be empty or refused."""
        return self._listed_at_s is not None or bool(self.refused)

    def stale_s(self) -> float | None:
        """How old what is shown is; 0 while it is followed, None before anything was read."""
        if self._listed_at_s is None:
            return None
        if self._mirror is None:
            return 0.0
        health = self._mirror.health()
        heard = health.heard_s_ago or 0.0
        return 0.0 if health.following or heard < STALE_AFTER_S else heard

    def trouble(self) -> str:
        """Why it is not current; "" if it is."""
        if self._mirror is None:
            return self.problem
        health = self._mirror.health()
        return "" if health.following else health.problem

    async def list_once(self) -> None:
        """List all pages. A refusal is kept; raises other KubeErrors."""
        raws: list[msgspec.Raw] = []
        position, partial = "", {}
        try:
            async for page in self._client.list_pages(self.kind, namespace=self.namespace):
                raws += page.items or ()
                position = page.metadata.resource_version
                new = self._decoded(page.items or ())
                partial.update(new)
                # A list that begins anew must not show fewer objects than are shown already.
                if len(partial) >= len(self._partial):
                    self._partial = partial
                    self.changes += 1
                for key in new:
                    self._tell(self.kind, key)
                # Other kinds' pages, and keys, have their turn.
                await asyncio.sleep(0)
        except Forbidden:
            where = f" in {self.namespace}" if self.namespace else " of the whole cluster"
            self.refused = f"you may not list {self.kind.plural}{where}"
            return
        except NotFound:
            if not self._optional:
                raise
            self._listed_at_s = self._client.clock.monotonic_s()
            return
        mirror: Mirror[Object] = Mirror(
            self._client,
            self.kind,
            self._decoder,
            self._heard,
            namespace=self.namespace,
            optional=self._optional,
        )
        mirror.catch_up(raws, position)
        self._mirror, self._partial = mirror, {}
        self.refused = self.problem = ""
        self._listed_at_s = self._client.clock.monotonic_s()

    async def run(self) -> None:
        """List, then follow, until cancelled; failures are told by ``trouble`` and tried again."""
        while self._mirror is None:
            try:
                await self.list_once()
            except Gone:
                continue
            except KubeError as error:
                self.problem = str(error)
                await self._client.clock.sleep(AGAIN_S)
            else:
                if self._mirror is None:
                    await self._client.clock.sleep(REFUSED_AGAIN_S)
        await self._mirror.run()

    def _heard(self, change: Change[Object]) -> None:
        if isinstance(change, Changed) and _says_the_same(change.before, change.after):
            return
        self.changes += 1
        match change:
            case Appeared(one) | Changed(_, one) | Vanished(one):
                self._tell(self.kind, (one.metadata.namespace, one.metadata.name))
            case Unreadable() | UnreadableGone():
                self._tell(self.kind, (change.namespace, change.name))
            case Listed():
                return

    def _decoded(self, raws: list[msgspec.Raw] | tuple[()]) -> dict[Key, Object]:
        found = {}
        for raw in raws:
            try:
                one = self._decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # The mirror counts it; a line of it would be a guess.
                continue
            metadata = one.metadata
            found[metadata.namespace, metadata.name] = one
        return found


def _says_the_same(before: object, after: object) -> bool:
    """Whether nothing is new of what is read of a node. Each kubelet writes its own every five minutes, which
    are 33 updates a second of 10,000 nodes.
    """
    if not isinstance(before, Node) or not isinstance(after, Node):
        return False
    version = after.metadata.resource_version
    metadata = msgspec.structs.replace(before.metadata, resource_version=version)
    return msgspec.structs.replace(before, metadata=metadata) == after
