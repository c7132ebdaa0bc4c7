"""Where in an object something is wrong, for its author.

Inner values complain of their own fields ("values"); each level on the way out puts its own path in
front, until the message reads "spec.affinity.nodeAffinity.required[0].values".
"""

from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model import phrases
from gpufleet.model.model_errors import InputError

harmless = phrases.harmless
"""A name as it is, or quoted and cut where it is no name and could forge a line."""


class _Block:
    """A ``with`` block of which an InputError becomes an ObjectError, at a path or in an object.

    A class and no generator: a large cluster is read in a million of these blocks, and a generator costs five
    times as much.
    """

    __slots__ = ("_path", "_where")

    def __init__(self, path: str, where: tuple[str, str] | None = None) -> None:
        self._path = path
        self._where = where

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raises ObjectError."""
        if not isinstance(error, InputError):
            return
        where = error.where if self._where is None else f"{self._where[0]} {harmless(self._where[1])}"
        raise _moved(error, field=joined(self._path, error.field), where=where) from error


def inside(path: str) -> _Block:
    """Whatever is wrong in this block is wrong at this path."""
    return _Block(path)


def of_object(kind: str, path: str) -> _Block:
    """Whatever is wrong in this block is wrong in this object ("pod", "team-a/train-0")."""
    return _Block("", (kind, path))


def joined(path: str, field: str) -> str:
    """The field's path from further out."""
    if not field or not path:
        return path or field
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"


def _moved(error: InputError, *, field: str, where: str) -> ObjectError:
    return ObjectError(error.problem, field=field, value=error.value, expected=error.expected, where=where)
