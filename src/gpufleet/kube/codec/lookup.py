"""The seam through which a codec asks for the other objects that an object speaks of."""

from collections.abc import Iterable
from typing import Any, Protocol

from gpufleet.kube.resources import Kind


class Lookup(Protocol):
    """Finds objects as they were last heard of; kinds that are not followed are never found."""

    def find(self, kind: Kind, name: str, namespace: str = "") -> Any | None:
        """The object of a kind and a name; None if it is not there, or cannot be read."""
        ...

    def all(self, kind: Kind) -> Iterable[Any]:
        """All objects of a kind."""
        ...
