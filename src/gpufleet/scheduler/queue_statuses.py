"""The statuses of FleetQueues as the API server has them after our own writes, of which the watch may not
have told yet.

Every write names the version that it rests on. The answer to it is the next version, so a status can be
written again at once; what another writer changed in between is refused as a conflict, and read.
"""

from collections.abc import Callable, Mapping

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.objects.fleet_queues import FleetQueue, FleetQueueStatus, decoded_status, status_of
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.replica import Identity
from gpufleet.model.identifiers import QueueName

VERSIONS_KEPT = 64
"""A watch that is so many of our writes behind is taken as it is: the next write conflicts, and the queue is
read.
"""

NO_STATUS = msgspec.Raw(b"{}")


class StatusVersion(msgspec.Struct, frozen=True):
    """A version of a FleetQueue, and the status that it has."""

    version: str
    status: FleetQueueStatus


class _Answer(msgspec.Struct, frozen=True):
    """A FleetQueue without its spec, which may be one that we cannot decode."""

    metadata: Metadata
    status: msgspec.Raw = NO_STATUS


class _Newer(msgspec.Struct, frozen=True):
    """What the server answered last, and the versions before it of which the watch may still tell."""

    answer: _Answer
    before: tuple[str, ...]


_ANSWER = msgspec.json.Decoder(_Answer)


class QueueStatuses:
    """Reads and writes statuses. ``unreadable`` are the FleetQueues that cannot be decoded, by namespace and
    name.
    """

    def __init__(
        self,
        client: Client,
        cluster: Lookup,
        unreadable: Callable[[], Mapping[tuple[str, str], Identity]],
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.unreadable = unreadable
        self._newer: dict[QueueName, _Newer] = {}

    def newest(self, seen: FleetQueue) -> FleetQueue:
        """A queue that the watch told of, with what was written since."""
        newer = self._known(QueueName(seen.metadata.name), seen.metadata.resource_version)
        if newer is None:
            return seen
        version = newer.metadata.resource_version
        metadata = msgspec.structs.replace(seen.metadata, resource_version=version)
        return msgspec.structs.replace(seen, metadata=metadata, status=newer.status)

    def version_of(self, name: QueueName) -> StatusVersion | None:
        """What the status of a queue says; None where there is no such queue."""
        version = self._seen_version(name)
        if not version:
            self._newer.pop(name, None)
            return None
        newer = self._known(name, version)
        if newer is not None:
            return StatusVersion(newer.metadata.resource_version, decoded_status(newer.status))
        seen: FleetQueue | None = self.cluster.find(resources.FLEET_QUEUES, name)
        return StatusVersion(version, FleetQueueStatus() if seen is None else status_of(seen))

    def has(self, name: QueueName) -> bool:
        """True if there is such a queue; its status, which may be large, is not decoded."""
        return bool(self._seen_version(name))

    def _seen_version(self, name: QueueName) -> str:
        """The version that the watch told of, "" where there is none."""
        identity = self.unreadable().get(("", name))
        if identity is not None:
            return identity.resource_version
        seen: FleetQueue | None = self.cluster.find(resources.FLEET_QUEUES, name)
        return "" if seen is None else seen.metadata.resource_version

    def _known(self, name: QueueName, seen_version: str) -> _Answer | None:
        """What the server answered after the version that the watch told of, if that is known."""
        newer = self._newer.get(name)
        if newer is None:
            return None
        if seen_version in newer.before:
            return newer.answer
        # None of the versions before our answer: the watch has caught up, or another writer came after us.
        del self._newer[name]
        return None

    async def write(self, name: QueueName, body: bytes, version: str) -> FleetQueueStatus:
        """Write a patch that rests on this version; the status as it is then. Raises KubeError."""
        raw = await self.client.patch(resources.FLEET_QUEUES, name, body, subresource="status")
        return self._note(name, decode(raw, _ANSWER), version)

    async def read_again(self, name: QueueName) -> None:
        """Ask the server itself, because a write was refused or its answer is lost. Raises KubeError."""
        self._note(name, decode(await self.client.get(resources.FLEET_QUEUES, name), _ANSWER))

    def _note(self, name: QueueName, answer: _Answer, rested_on: str = "") -> FleetQueueStatus:
        former, own = self._newer.get(name), answer.metadata.resource_version
        known = () if former is None else (*former.before, former.answer.metadata.resource_version)
        # Versions have no order that may be relied on, so those that are older than the answer are
        # remembered.
        every = (*known, rested_on, self._seen_version(name))
        before = tuple(dict.fromkeys(one for one in every if one not in {"", own}))
        self._newer[name] = _Newer(answer, before[-VERSIONS_KEPT:])
        return decoded_status(answer.status)
