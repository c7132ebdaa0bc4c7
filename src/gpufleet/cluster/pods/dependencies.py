"""Which pods must be read again when another object changes.

What a pod means depends on its claims, their volumes and classes, its group, its owners. Instead of
knowing these paths, whatever reads a pod asks through ``Recorder`` and the keys it asked for are
remembered, those of objects that do not exist (yet) among them.
"""

from typing import NamedTuple

from gpufleet.kube.resources import Kind
from gpufleet.model.identifiers import PodUid


class ObjectKey(NamedTuple):
    """An object by kind, namespace ("" for cluster-wide ones) and name ("" for all of the kind)."""

    kind: Kind
    namespace: str
    name: str


class Dependencies:
    """For each object the pods that were read with its help, and for each pod those objects."""

    def __init__(self) -> None:
        self._pods_by_key: dict[ObjectKey, dict[PodUid, None]] = {}
        self._keys_by_pod: dict[PodUid, frozenset[ObjectKey]] = {}

    def replace(self, uid: PodUid, keys: frozenset[ObjectKey]) -> None:
        """The pod was read anew, with these objects."""
        before = self._keys_by_pod.get(uid, frozenset())
        if before == keys:
            return
        for key in before - keys:
            pods = self._pods_by_key[key]
            del pods[uid]
            if not pods:
                del self._pods_by_key[key]
        for key in keys - before:
            self._pods_by_key.setdefault(key, {})[uid] = None
        if keys:
            self._keys_by_pod[uid] = keys
        else:
            self._keys_by_pod.pop(uid, None)

    def dependants(self, key: ObjectKey) -> list[PodUid]:
        """The pods to read again now that this object changed, appeared or went."""
        found = dict(self._pods_by_key.get(key, {}))
        found.update(self._pods_by_key.get(ObjectKey(key.kind, "", ""), {}))
        return list(found)
