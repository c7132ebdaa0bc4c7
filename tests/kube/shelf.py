"""A cluster's other objects, as a codec looks them up."""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.resources import Kind
from tests.kube.wire_objects import decoded


class Shelf:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[tuple[Kind, str, str], Any] = {}

    def put(self, kind: Kind, decoded_as: type[Any], name: str, namespace: str = "", **parts: Any) -> None:
        """An object with these parts; ``metadata`` may add to its names."""
        metadata = {"name": name, "namespace": namespace, **parts.pop("metadata", {})}
        self._objects[kind, namespace, name] = decoded({"metadata": metadata, **parts}, decoded_as)

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """One object."""
        return self._objects.get((kind, namespace, name))

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        return [found for (its_kind, _, _), found in self._objects.items() if its_kind == kind]
