"""The objects of one kind, followed by list and watch, as observations of the interval log.

Every version that the server tells is an observation, and so is each deletion of which it tells. What a
later list lacks was gone at some moment since the last event, which nothing tells: the list itself is the
observation then, and no deletion. ``mark`` says up to when nothing was missed.
"""

from collections.abc import Callable

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.mirror import Health, Mirror
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.replica import Identity
from gpufleet.kube.resources import Kind
from gpufleet.ledger.cluster_reading import OPTIONAL
from gpufleet.ledger.object_versions import READERS, listed_of
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import Followed, Gone, ObjectVersion, Observation, PodVersion
from gpufleet.model.model_errors import InputError


class Heard(msgspec.Struct, frozen=True):
    """A version of an object, with what a mirror must know of it."""

    metadata: Identity
    version: ObjectVersion


class _Identified(msgspec.Struct, frozen=True):
    metadata: Identity = Identity()


_IDENTIFIED = msgspec.json.Decoder(_Identified)


class VersionDecoder:
    """Reads objects of one kind as versions of the ledger."""

    def __init__(self, kind: Kind) -> None:
        self._read = READERS[kind][1]

    def decode(self, raw: msgspec.Raw, /) -> Heard:
        """The version. Raises msgspec.DecodeError, as other decoders do."""
        try:
            return Heard(_IDENTIFIED.decode(raw).metadata, self._read(raw))
        except (InputError, ValueError) as error:
            raise msgspec.DecodeError(str(error)) from error


class Follower:
    """One kind of one cluster. ``take`` gets observations, ``now_us`` is the time by the server's clock."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        take: Callable[[Observation], None],
        now_us: Callable[[], int],
    ) -> None:
        self.kind = READERS[kind][0]
        self.mirror = Mirror(client, kind, VersionDecoder(kind), self._hear, optional=kind in OPTIONAL)
        self._wire_kind = kind
        self._take = take
        self._now_us = now_us
        self._lists = 0
        self._from_us = 0
        self.known_until_us = 0

    def health(self) -> Health:
        """How the watch is doing."""
        return self.mirror.health()

    def mark(self) -> None:
        """Observe what was listed and followed since the last mark."""
        health = self.mirror.health()
        now_us = self._now_us()
        if not health.lists or health.heard_s_ago is None:
            # Nothing is known yet, or the cluster does not have this kind.
            return
        if health.lists != self._lists:
            self._lists, self._from_us = health.lists, now_us
            # An object that cannot be read is there all the same.
            there = [found.version.uid for found in self.mirror.objects.values() if not _ended(found.version)]
            there += [identity.uid for identity in self.mirror.unreadable.values() if identity.uid]
            self._take(listed_of(self._wire_kind, int(self.mirror.position), now_us, there))
            self.known_until_us = now_us
        until_us = now_us - int(health.heard_s_ago * US_PER_S)
        # What an object says that cannot be read is not known.
        if until_us > self._from_us and not health.unreadable:
            self._take(Followed(self.kind, self._from_us, until_us))
            self.known_until_us = until_us

    def _hear(self, change: Change[Heard]) -> None:
        match change:
            case Appeared(found) | Changed(_, found):
                self._take(found.version)
            case Vanished(last) if not self.mirror.is_listing:
                version = last.version
                # Never before its last version, whatever the clocks say.
                at_us = max(version.at_us, self._now_us())
                self._take(Gone(self.kind, version.uid, version.number, at_us))
            case _:
                # A list or an object that cannot be read: the next mark tells of both.
                pass


def _ended(version: ObjectVersion) -> bool:
    return isinstance(version, PodVersion) and version.ended_us is not None
