"""Where in an object something is wrong, for its author.

Inner values complain of their own fields ("values"); each level on the way out puts its own path in
front, until the message reads "spec.affinity.nodeAffinity.required[0].values".
"""

from collections.abc import Iterator
from contextlib import contextmanager

from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model import phrases
from gpufleet.model.model_errors import InputError

harmless = phrases.harmless
"""A name as it is, or quoted and cut where it is no name and could forge a line."""


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Whatever is wrong in here is wrong at this path."""
    try:
        yield
    except InputError as error:
        raise _moved(error, field=joined(path, error.field), where=error.where) from error


@contextmanager
def of_object(kind: str, path: str) -> Iterator[None]:
    """Whatever is wrong in here is wrong in this object ("pod", "team-a/train-0")."""
    try:
        yield
    except InputError as error:
        raise _moved(error, field=error.field, where=f"{kind} {harmless(path)}") from error


def joined(path: str, field: str) -> str:
    """The field's path from further out."""
    if not field or not path:
        return path or field
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"


def _moved(error: InputError, *, field: str, where: str) -> ObjectError:
    return ObjectError(error.problem, field=field, value=error.value, expected=error.expected, where=where)
