"""What was seen of pods, packed: a month of a large fleet has hundreds of thousands of them.

A version is kept as what it changes of the version before it, in one row of bytes a pod. That takes a fifth
of the memory of the versions themselves, and the collector of garbage has nothing in it to walk over. Pods
that were changed last are kept unpacked, because the versions of a pod mostly come soon after one another.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gpufleet.ledger.versions import Gone, ObjectKind, PodVersion
from gpufleet.model.identifiers import NodeName, PodUid

UNPACKED_MAX = 4096
"""So many pods are kept unpacked: some MiB."""


class SeenPod(msgspec.Struct):
    """The versions of a pod by their numbers, and its deletion where that was seen."""

    versions: dict[int, PodVersion] = {}
    gone: Gone | None = None


class Binding(msgspec.Struct, frozen=True):
    """Where a pod was bound, by its newest version with a Binding, and its gang."""

    uid: PodUid
    node: NodeName
    gang: str


class PackedPods:
    """What was seen of each pod, by uid."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._unpacked: dict[str, SeenPod] = {}
        self._last: tuple[str, SeenPod] = ("", SeenPod())

    def uids(self) -> Iterator[str]:
        """All pods of which anything was seen, in order."""
        return iter(sorted(self._packed))

    def of(self, uid: str) -> SeenPod:
        """What was seen of a pod, to be read and not to be changed."""
        found = self._unpacked.get(uid)
        if found is not None:
            return found
        if self._last[0] != uid:
            packed = self._packed.get(uid)
            self._last = uid, SeenPod() if packed is None else _unpacked(PodUid(uid), packed)
        return self._last[1]

    def bindings(self) -> Iterator[Binding]:
        """The binding of each pod that has one, in order of uids."""
        for uid in self.uids():
            known = self._unpacked.get(uid)
            if known is not None:
                found = _binding(uid, [known.versions[number] for number in sorted(known.versions)])
            else:
                found = _binding(uid, _bound_in(self._packed[uid]))
            if found is not None:
                yield found

    def to_change(self, uid: str) -> SeenPod:
        """What was seen of a pod, to be added to."""
        found = self._unpacked.get(uid)
        if found is not None:
            return found
        packed = self._packed.setdefault(uid, b"")
        found = _unpacked(PodUid(uid), packed) if packed else SeenPod()
        self._last = "", SeenPod()
        self._unpacked[uid] = found
        if len(self._unpacked) > UNPACKED_MAX:
            self._pack_older_half()
        return found

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._last = "", SeenPod()
        self._unpacked.pop(uid, None)
        self._packed.pop(uid, None)

    def _pack_older_half(self) -> None:
        for uid in list(self._unpacked)[: UNPACKED_MAX // 2]:
            self._packed[uid] = _packed(self._unpacked.pop(uid))


_NAMES = tuple(name for name in PodVersion.__struct_fields__ if name != "uid")
_FIRST = msgspec.structs.astuple(PodVersion(PodUid(""), 0, 0))[1:]
"""What the first version of a pod is written as a change of."""

_LETTERS = {name: chr(ord("A") + place) for place, name in enumerate(_NAMES)}
"""Names of one letter, since each stands in the bytes of every pod."""

_CHANGE: Any = msgspec.defstruct(
    "_CHANGE",
    [
        (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(PodVersion)
        if field.name != "uid"
    ],
    omit_defaults=True,
    rename=_LETTERS,
)
_ENCODE = msgspec.msgpack.Encoder().encode
_UNSET = msgspec.UNSET
_DECODER: Any = msgspec.msgpack.Decoder(tuple[tuple[_CHANGE, ...], tuple[int, int] | None])


def _packed(seen: SeenPod) -> bytes:
    before = _FIRST
    changes = []
    for number in sorted(seen.versions):
        values = msgspec.structs.astuple(seen.versions[number])[1:]
        pairs = zip(values, before, strict=True)
        changes.append(_CHANGE(*[_UNSET if value == old else value for value, old in pairs]))
        before = values
    gone = None if seen.gone is None else (seen.gone.number, seen.gone.at_us)
    return _ENCODE((changes, gone))


def _unpacked(uid: PodUid, packed: bytes) -> SeenPod:
    changes, gone = _DECODER.decode(packed)
    versions: dict[int, PodVersion] = {}
    values: Iterable[Any] = _FIRST
    for change in changes:
        pairs = zip(msgspec.structs.astuple(change), values, strict=True)
        values = [old if new is _UNSET else new for new, old in pairs]
        version = PodVersion(uid, *values)
        versions[version.number] = version
    return SeenPod(versions, None if gone is None else Gone(ObjectKind.POD, uid, *gone))


class _Bound(msgspec.Struct):
    """The fields of a version that a binding is of."""

    bound_us: int | None = None
    node: str = ""
    gang: str = ""


_BOUND_CHANGE: Any = msgspec.defstruct(
    "_BOUND_CHANGE",
    [
        ("bound_us", int | None | msgspec.UnsetType, msgspec.UNSET),
        ("node", str | msgspec.UnsetType, msgspec.UNSET),
        ("gang", str | msgspec.UnsetType, msgspec.UNSET),
    ],
    rename=_LETTERS,
)
# All other fields are passed over, which takes a fraction of the time.
_BOUND_DECODER: Any = msgspec.msgpack.Decoder(tuple[tuple[_BOUND_CHANGE, ...], tuple[int, int] | None])


def _bound_in(packed: bytes) -> Iterator[_Bound]:
    bound_us, node, gang = None, "", ""
    for change in _BOUND_DECODER.decode(packed)[0] if packed else ():
        bound_us = bound_us if change.bound_us is _UNSET else change.bound_us
        node = node if change.node is _UNSET else change.node
        gang = gang if change.gang is _UNSET else change.gang
        yield _Bound(bound_us, node, gang)


def _binding(uid: str, versions: Iterable[PodVersion | _Bound]) -> Binding | None:
    found = None
    for one in versions:
        if one.bound_us is not None:
            found = one
    return None if found is None or not found.node else Binding(PodUid(uid), NodeName(found.node), found.gang)
