"""The local copy that a mirror keeps, and the rules by which it changes.

No waiting and no network here: lists and events come in, changes go out. ``mirror`` feeds it.

Versions are compared as whole numbers where both are numbers, which Kubernetes promises for its
own kinds and CRDs; any other resourceVersion is only ever equal or not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import msgspec

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
from gpufleet.kube.watch_stream import DELETED, WatchEvent
from gpufleet.model.model_errors import printable

Key = tuple[str, str]
"""Namespace and name."""

Read_co = TypeVar("Read_co", covariant=True)


class ObjectDecoder(Protocol[Read_co]):
    """Reads one object from the wire, as the decoders of msgspec do."""

    def decode(self, raw: msgspec.Raw, /) -> Read_co:
        """The object. Raises msgspec.DecodeError for one that is not as its kind should be."""
        ...


class Inconsistent(Exception):
    """What the watch tells cannot follow from what we hold; a list will settle it."""


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """Which version of which object: all we need to know of one that we cannot read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _OnlyIdentity(msgspec.Struct, frozen=True):
    metadata: Identity = Identity()


_IDENTITY = msgspec.json.Decoder(_OnlyIdentity)


class Bad(msgspec.Struct, frozen=True):
    """A version that its kind's decoder refused."""

    metadata: Identity
    problem: str
    raw: bytes


def is_newer(version: str, held: str) -> bool:
    """Whether a resourceVersion is newer than one we hold of the same kind.

    Other than numbers cannot be ordered: any that differs counts as newer.
    """
    try:
        return int(version) > int(held)
    except ValueError:
        return version != held


class Replica(Generic[Object]):
    """All objects of one kind, as of ``position`` (a resourceVersion; empty before the first list).

    Tells ``sink`` every change, synchronously and after it happened here.
    """

    def __init__(self, decoder: ObjectDecoder[Object], sink: Callable[[Change[Object]], None]) -> None:
        self._decoder = decoder
        self._sink = sink
        self._objects: dict[Key, Object] = {}
        self._bad: dict[Key, Identity] = {}
        self.position = ""
        self.listed = False

    @property
    def objects(self) -> Mapping[Key, Object]:
        """What exists, by namespace and name; for an Unreadable one its last readable version."""
        return self._objects

    @property
    def unreadable(self) -> Mapping[Key, Identity]:
        """The versions that could not be read."""
        return self._bad

    def read(self, raw: msgspec.Raw) -> Object | Bad:
        """One object, or what can be said of one that is not as its kind should be."""
        try:
            found = self._decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Bad(_identity(raw), str(error), bytes(raw))
        if not found.metadata.uid or not found.metadata.name:
            problem = "Object has no name or no uid - at `$.metadata`"
            return Bad(_identity(raw), problem, bytes(raw))
        return found

    def apply_list(self, listed: Iterable[Object | Bad], position: str, *, restored: bool = False) -> None:
        """Take over a whole list: what is not in it has vanished.

        ``restored`` says that the server itself went back, as after a backup was put in: then any
        version that differs from ours is the truth.
        """
        fresh = {_key(found): found for found in listed}
        # Gone ones first: a reader then never sees two objects that cannot be there together.
        for key in [key for key in self._objects if key not in fresh]:
            self._vanish(key)
        for key in [key for key in self._bad if key not in fresh]:
            self._forget_bad(key)
        # Before the objects are told: a reader that asks for the position gets that of what it hears.
        self.position = position
        for key, found in fresh.items():
            self._put(key, found, restored=restored)
        if not self.listed:
            self.listed = True
            self._sink(Listed())

    def apply_event(self, event: WatchEvent) -> None:
        """ADDED, MODIFIED or DELETED. Raises Inconsistent if a list must settle it.

        An event that is not newer than ``position`` is a repetition, whatever it says: a watch
        tells every change once and in order.
        """
        if event.type == DELETED:
            identity = _identity(event.object)
            # The version of a deletion is that of the deletion, not of the object's last change.
            if self._advance(identity.resource_version):
                self._remove((identity.namespace, identity.name), identity)
            return
        found = self.read(event.object)
        if self._advance(found.metadata.resource_version):
            self._put(_key(found), found)

    def apply_bookmark(self, event: WatchEvent) -> None:
        """Everything up to the bookmark's version has been told."""
        self._advance(_identity(event.object).resource_version)

    def _advance(self, version: str) -> bool:
        if not is_newer(version, self.position):
            return False
        # An unreadable object has no version; what the server said before still holds.
        if version:
            self.position = version
        return True

    def _put(self, key: Key, found: Object | Bad, *, restored: bool = False) -> None:
        meta = found.metadata
        self._make_room(key, meta.uid)
        held, bad = self._objects.get(key), self._bad.get(key)
        # An unreadable version is always newer than the readable one that is kept beside it.
        newest = bad if bad is not None or held is None else held.metadata
        if newest is not None:
            version, known = meta.resource_version, newest.resource_version
            # An older version may arrive late, by a list beside a watch.
            if not (version != known if restored else is_newer(version, known)):
                return
        if isinstance(found, Bad):
            self._bad[key] = found.metadata
            # The readable version stays in ``_objects``: what it holds is not given away.
            self._sink(Unreadable(*key, meta.uid, found.problem, found.raw))
            return
        self._bad.pop(key, None)
        self._objects[key] = found
        self._sink(Appeared(found) if held is None else Changed(held, found))

    def _make_room(self, key: Key, uid: str) -> None:
        """Whatever has this name under another uid is gone."""
        held, bad = self._objects.get(key), self._bad.get(key)
        if bad is not None and bad.uid != uid:
            self._forget_bad(key)
        if held is not None and held.metadata.uid != uid:
            self._vanish(key)

    def _remove(self, key: Key, identity: Identity) -> None:
        held = self._objects.get(key)
        bad = self._bad.get(key)
        # Both can be there: a readable version, and a newer one that cannot be read.
        known_uids = {known.uid for known in (held.metadata if held is not None else None, bad) if known}
        if known_uids - {identity.uid}:
            raise Inconsistent(
                f"{printable('/'.join(key))} was deleted with uid {printable(identity.uid)}, "
                "but we hold another"
            )
        if bad is not None:
            self._forget_bad(key)
        if held is not None:
            self._vanish(key)

    def _vanish(self, key: Key) -> None:
        self._sink(Vanished(self._objects.pop(key)))

    def _forget_bad(self, key: Key) -> None:
        gone = self._bad.pop(key)
        self._sink(UnreadableGone(gone.namespace, gone.name, gone.uid))


def _key(found: Object | Bad) -> Key:
    return found.metadata.namespace, found.metadata.name


def _identity(raw: msgspec.Raw) -> Identity:
    """The metadata of an object, as far as it can be read; empty where even that is bad."""
    try:
        return _IDENTITY.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Identity()
