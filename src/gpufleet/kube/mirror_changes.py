"""What a mirror tells its owner, one change at a time.

``scheduler`` turns these into events of the engine.
"""

from typing import Generic, Protocol, TypeVar

import msgspec


class ObjectMeta(Protocol):
    """What a mirror must know of every object."""

    @property
    def name(self) -> str:
        """metadata.name."""
        ...

    @property
    def namespace(self) -> str:
        """metadata.namespace, empty for what is in none."""
        ...

    @property
    def uid(self) -> str:
        """metadata.uid."""
        ...

    @property
    def resource_version(self) -> str:
        """metadata.resourceVersion."""
        ...


class KubeObject(Protocol):
    """Any object of the API, read by the decoder of its kind."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


Object = TypeVar("Object", bound=KubeObject)


class Appeared(msgspec.Struct, Generic[Object], frozen=True):
    """An object that was not there."""

    object: Object


class Changed(msgspec.Struct, Generic[Object], frozen=True):
    """A newer version of a known object: ``before`` and ``after`` have one uid."""

    before: Object
    after: Object


class Vanished(msgspec.Struct, Generic[Object], frozen=True):
    """An object is gone; as we last knew it."""

    last: Object


class Listed(msgspec.Struct, frozen=True):
    """The first list is whole: everything that exists has appeared."""


class Unreadable(msgspec.Struct, frozen=True):
    """A version of an object cannot be read.

    A readable earlier version of that uid stays: what it holds is not given away. It is readable again with
    the next Appeared or Changed of this uid. ``raw`` is the object as it came, for readers that can use a
    part of it.
    """

    namespace: str
    name: str
    uid: str
    problem: str
    raw: bytes = b""


class UnreadableGone(msgspec.Struct, frozen=True):
    """An object that was Unreadable is gone."""

    namespace: str
    name: str
    uid: str


Change = Appeared[Object] | Changed[Object] | Vanished[Object] | Listed | Unreadable | UnreadableGone
