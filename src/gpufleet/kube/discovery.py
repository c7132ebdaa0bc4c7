"""What a server serves: the plain discovery documents, one group and version at a time.

A kind that is missing is a normal answer, so ``client.Client`` turns it into an empty one.
"""

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.resources import Kind


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] | None = None


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] | None = None


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version = _Version()


_RESOURCES = msgspec.json.Decoder(_ResourceList)
_GROUP = msgspec.json.Decoder(_Group)


def read_kinds(body: bytes, group: str, version: str) -> tuple[Kind, ...]:
    """The kinds in an APIResourceList, without their subresources. Raises AnswerUnreadable."""
    return tuple(
        Kind(group, version, found.name, found.kind, found.namespaced)
        for found in decode(body, _RESOURCES).resources or ()
        if "/" not in found.name
    )


def takes_new(body: bytes, plural: str) -> bool:
    """Whether an APIResourceList has this resource with the verb create; one that names no verbs has it.

    Raises AnswerUnreadable.
    """
    found = (one for one in decode(body, _RESOURCES).resources or () if one.name == plural)
    return any(one.verbs is None or "create" in one.verbs for one in found)


def read_versions(body: bytes) -> tuple[str, ...]:
    """The versions in an APIGroup, the preferred one first. Raises AnswerUnreadable."""
    found = decode(body, _GROUP)
    first = found.preferred_version.version
    return tuple(sorted((known.version for known in found.versions), key=lambda version: version != first))
