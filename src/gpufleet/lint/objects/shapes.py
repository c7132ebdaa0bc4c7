"""Whether the fields of pods that rules read have the types that Kubernetes asks for.

A rule reads a field of a wrong type as missing; here its owner is told, since the API server would
refuse the object and no rule has judged that part of it.
"""

from collections.abc import Iterator

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence
from gpufleet.lint.source.text import Problem

_TEXT, _NUMBER, _TRUTH, _AMOUNT = "text", "a whole number", "true or false", "a quantity"
_LIST, _MAPPING = "a list", "a mapping"

Shape = str | dict[str, "Shape"] | list["Shape"]
"""The name of a type; fields by name (``*`` for any); or a list with the shape of its items."""

_LABELS: Shape = {"*": _TEXT}
_AMOUNTS: Shape = {"*": _AMOUNT}
_CONTAINER: Shape = {
    "name": _TEXT,
    "image": _TEXT,
    "command": [_TEXT],
    "args": [_TEXT],
    "env": [{"name": _TEXT, "value": _TEXT, "valueFrom": {}}],
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS, "claims": [{"name": _TEXT}]},
    "volumeMounts": [{"name": _TEXT, "mountPath": _TEXT}],
    "securityContext": {"privileged": _TRUTH},
}
_POD: Shape = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [
        {
            "name": _TEXT,
            "hostPath": {"path": _TEXT},
            "emptyDir": {"medium": _TEXT, "sizeLimit": _AMOUNT},
        }
    ],
    "nodeSelector": _LABELS,
    "affinity": {},
    "tolerations": [{"key": _TEXT, "operator": _TEXT, "value": _TEXT, "effect": _TEXT}],
    "runtimeClassName": _TEXT,
    "priorityClassName": _TEXT,
    "schedulerName": _TEXT,
    "hostPID": _TRUTH,
    "hostIPC": _TRUTH,
    "terminationGracePeriodSeconds": _NUMBER,
    "resourceClaims": [{"name": _TEXT}],
}


def wrong_types(manifest: Manifest) -> Iterator[Problem]:
    """Every field of the object's pods with a value of a wrong type."""
    for template in manifest.templates:
        for field, expected in (
            *_wrong(template.spec, _POD),
            *_wrong(template.metadata, {"annotations": _LABELS}),
        ):
            position = manifest.source.position(field.offset)
            reason = f"{field.path} is {_written(field.node)}, expected {expected}"
            yield Problem(manifest.source.name, position, reason)


def _wrong(field: Field, shape: Shape) -> Iterator[tuple[Field, str]]:
    if not field.exists:
        return
    match shape:
        case dict():
            if not isinstance(field.node, Mapping):
                yield field, _MAPPING
                return
            everyone = shape.get("*")
            for name, below in field.entries():
                wanted = shape.get(name, everyone)
                if wanted is not None:
                    yield from _wrong(below, wanted)
        case list():
            if not isinstance(field.node, Sequence):
                yield field, _LIST
                return
            for item in field.items():
                yield from _wrong(item, shape[0])
        case str():
            if not (isinstance(field.node, Scalar) and _fits(field.node, shape)):
                yield (
                    field,
                    shape + (", in quotes" if shape is _TEXT and isinstance(field.node, Scalar) else ""),
                )


def _fits(node: Scalar, wanted: str) -> bool:
    value = node.value
    if wanted == _TRUTH:
        return isinstance(value, bool)
    if wanted == _NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if wanted == _AMOUNT:
        return not isinstance(value, bool)
    return isinstance(value, str)


def _written(node: Node | None) -> str:
    match node:
        case Mapping():
            return _MAPPING
        case Sequence():
            return _LIST
        case Scalar() if isinstance(node.value, bool):
            return _TRUTH
        case Scalar() if isinstance(node.value, int | float):
            return "a number"
    return _TEXT
