"""The objects to convert: every document of a file, lists taken apart, with the path of whatever is wrong.

Other systems' objects are read field by field, through the questions of ``Source``, and not as types of ours:
what a version of theirs adds must not make the whole file unreadable, but is noted as not understood.
"""

from typing import Any

import msgspec

from gpufleet.kube.yaml_documents import objects_of
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import ZERO, Quantity, parse_quantity


class Source(msgspec.Struct, frozen=True):
    """One object of another system."""

    group: str
    kind: str
    name: str
    namespace: str
    body: dict[str, Any]

    @property
    def title(self) -> str:
        """The object's name for people: "LocalQueue team-a/user-queue"."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def get(self, *path: str) -> Any:
        """What stands at a path, None where nothing does."""
        found: Any = self.body
        for name in path:
            if not isinstance(found, dict):
                raise self.error("not a map", ".".join(path), found, "a map")
            found = found.get(name)
            # Null stands for a field that is not there, as for the API server.
            if found is None:
                return None
        return found

    def text(self, *path: str) -> str:
        """A text, "" where there is none."""
        return self._typed(path, str, "a text") or ""

    def mapping(self, *path: str) -> dict[str, Any]:
        """A map, empty where there is none."""
        return self._typed(path, dict, "a map") or {}

    def items(self, *path: str) -> list[Any]:
        """A list, empty where there is none."""
        return self._typed(path, list, "a list") or []

    def number(self, *path: str) -> int | None:
        """A whole number, None where there is none."""
        found = self.get(*path)
        if found is not None and type(found) is not int:
            raise self.error("not a whole number", ".".join(path), found, "a whole number")
        return found

    def _typed(self, path: tuple[str, ...], kind: type, expected: str) -> Any:
        found = self.get(*path)
        if found is not None and not isinstance(found, kind):
            raise self.error(f"not {expected}", ".".join(path), found, expected)
        return found

    def error(self, problem: str, field: str, value: object = None, expected: str = "") -> InputError:
        """What is wrong with the object, for the person who gave it."""
        return InputError(problem, field=field, value=value, expected=expected, where=self.title)

    def quantity(self, value: Any, field: str) -> Quantity:
        """An amount of 0 or more, as the API server would read it."""
        # By the exact type, because true and false are integers to Python.
        if type(value) not in (int, float, str):
            raise self.error("not an amount", field, value, "a quantity such as 8 or 80Gi")
        try:
            found = parse_quantity(str(value), field=field)
        except InputError as problem:
            raise self.error(problem.problem, field, value, problem.expected) from None
        if found < ZERO:
            raise self.error("a negative amount", field, value, "0 or more")
        return found


def read_documents(text: bytes, where: str) -> list[Source]:
    """The objects of a YAML or JSON text. Raises InputError for what is none."""
    return [object_of(document, where) for document in objects_of(text, where)]


def object_of(document: dict[str, Any], where: str) -> Source:
    """One object. Raises InputError for what is none."""
    metadata = document.get("metadata")
    names = [document.get("apiVersion"), document.get("kind")]
    if not isinstance(metadata, dict) or not all(isinstance(one, str) for one in names):
        raise InputError("no Kubernetes object", where=where, expected="apiVersion, kind and metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace", "")
    if not isinstance(name, str) or not is_subdomain(name) or not isinstance(namespace, str):
        raise InputError("not an object's name", field="metadata.name", value=name, where=where)
    api_version, kind = str(names[0]), str(names[1])
    return Source(api_version.rpartition("/")[0], kind, name, namespace, document)
