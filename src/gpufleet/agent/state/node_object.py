"""The object of a kind that is named as this node and that this agent alone writes: read, made, changed.

A write carries the version that it was decided on. The object belongs to the Node, so it goes when that goes.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from gpufleet.kube.answer import AnswerUnreadable, decode
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.objects.metadata import Metadata, OwnerReference, PartialObject
from gpufleet.kube.resources import NODES, Kind
from gpufleet.kube.status import NotFound

Spec_contra = TypeVar("Spec_contra", contravariant=True)
Read = TypeVar("Read")
_NODE = msgspec.json.Decoder(PartialObject)


class Encode(Protocol[Spec_contra]):
    """The body of a write: of a creation, or of a merge patch of a version."""

    def __call__(
        self, name: str, spec: Spec_contra, *, resource_version: str = "", owner: OwnerReference | None = None
    ) -> bytes:
        """Encode the object of this name."""
        ...


class NodeObject(Generic[Spec_contra, Read]):
    """Each request is tried once: the caller pauses between tries.

    ``decode_object`` raises AnswerUnreadable. ``unreadable`` makes the value that then stands for the object,
    which differs from all that is written.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        encode: Encode[Spec_contra],
        decode_object: Callable[[bytes], Read],
        unreadable: Callable[[Metadata], Read],
    ) -> None:
        self._client = client
        self._kind = kind
        self._encode = encode
        self._decode = decode_object
        self._unreadable = unreadable

    async def read(self, node: str) -> Read | None:
        """The object as the server has it. Raises KubeError."""
        try:
            answer = await self._client.get(self._kind, node, retry_limits=ONE_TRY)
        except NotFound:
            return None
        try:
            return self._decode(answer)
        except AnswerUnreadable:
            # Whatever stands there, it is written over.
            return self._unreadable(decode(answer, _NODE).metadata)

    async def create(self, node: str, spec: Spec_contra) -> Read:
        """Make it. Raises KubeError; NotFound here means that the server does not know the kind."""
        uid = decode(await self._client.get(NODES, node, retry_limits=ONE_TRY), _NODE).metadata.uid
        body = self._encode(node, spec, owner=OwnerReference("v1", "Node", node, uid))
        return self._decode(await self._client.create(self._kind, body, name=node, retry_limits=ONE_TRY))

    async def change(self, there: Metadata, spec: Spec_contra) -> Read:
        """Change it, if it is still as it was read. Raises KubeError."""
        body = self._encode(there.name, spec, resource_version=there.resource_version)
        return self._decode(await self._client.patch(self._kind, there.name, body, retry_limits=ONE_TRY))
