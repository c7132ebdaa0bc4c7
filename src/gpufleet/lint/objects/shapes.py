"""Whether the fields of pods that rules read have the types that Kubernetes asks for.

A rule reads a field of a wrong type as missing; here its owner is told, since the API server would
refuse the object and no rule has judged that part of it.
"""

from collections.abc import Iterator

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence
from gpufleet.lint.source.text import Problem

TEXT, NUMBER, TRUTH, _AMOUNT = "text", "a whole number", "true or false", "a quantity"
_LIST, _MAPPING = "a list", "a mapping"

Shape = str | dict[str, "Shape"] | list["Shape"]
"""The name of a type; fields by name (``*`` for any); or a list with the shape of its items."""

_LABELS: Shape = {"*": TEXT}
_AMOUNTS: Shape = {"*": _AMOUNT}
_CONTAINER: Shape = {
    "name": TEXT,
    "image": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "env": [{"name": TEXT, "value": TEXT, "valueFrom": {}}],
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS, "claims": [{"name": TEXT}]},
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT}],
    "securityContext": {"privileged": TRUTH},
}
_POD: Shape = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [
        {
            "name": TEXT,
            "hostPath": {"path": TEXT},
            "emptyDir": {"medium": TEXT, "sizeLimit": _AMOUNT},
        }
    ],
    "nodeSelector": _LABELS,
    "affinity": {},
    "tolerations": [{"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT}],
    "runtimeClassName": TEXT,
    "priorityClassName": TEXT,
    "schedulerName": TEXT,
    "hostPID": TRUTH,
    "hostIPC": TRUTH,
    "terminationGracePeriodSeconds": NUMBER,
    "resourceClaims": [{"name": TEXT}],
}


def wrong_types(manifest: Manifest) -> Iterator[Problem]:
    """Every field of the object's pods with a value of a wrong type."""
    for template in manifest.templates:
        for field, expected in (
            *misfits(template.spec, _POD),
            *misfits(template.metadata, {"annotations": _LABELS}),
        ):
            position = manifest.source.position(field.offset)
            reason = f"{field.path} is {written(field.node)}, expected {expected}"
            yield Problem(manifest.source.name, position, reason)


def misfits(field: Field, shape: Shape) -> Iterator[tuple[Field, str]]:
    """Every field that has not the type of its shape, with what is expected there."""
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
                    yield from misfits(below, wanted)
        case list():
            if not isinstance(field.node, Sequence):
                yield field, _LIST
                return
            for item in field.items():
                yield from misfits(item, shape[0])
        case str():
            if not (isinstance(field.node, Scalar) and _fits(field.node, shape)):
                yield (
                    field,
                    shape + (", in quotes" if shape is TEXT and isinstance(field.node, Scalar) else ""),
                )


def _fits(node: Scalar, wanted: str) -> bool:
    value = node.value
    if wanted == TRUTH:
        return isinstance(value, bool)
    if wanted == NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if wanted == _AMOUNT:
        return not isinstance(value, bool)
    return isinstance(value, str)


def written(node: Node | None) -> str:
    """The type of a value, as its owner would call it."""
    match node:
        case Mapping():
            return _MAPPING
        case Sequence():
            return _LIST
        case Scalar() if isinstance(node.value, bool):
            return TRUTH
        case Scalar() if isinstance(node.value, int | float):
            return "a number"
    return TEXT
