"""Kubernetes objects in a file as people keep them: documents of YAML or JSON, lists taken apart."""

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from gpufleet.model.errors import InputError, printable
from gpufleet.model.visible import visible_text

DOCUMENTS_MAX_BYTES = 64 * 2**20
"""Of one file: as many objects as a large cluster has queues, a hundred times over."""
EXPECTED = "Kubernetes objects as YAML or JSON"


def objects_of(text: bytes, where: str) -> list[dict[str, Any]]:
    """Every object of the text, in its order. Raises InputError for what is none."""
    return [one for document in _documents(text, where) for one in _objects(document, where)]


def yaml_text(value: object) -> str:
    """A value as YAML in which nothing is hidden."""
    try:
        text = msgspec.yaml.encode(value).decode()
    except UnicodeEncodeError:
        text = "\0"
    if visible_text(text) == text:
        return text
    # Written out in full, every such character is an escape in quotes.
    plain = msgspec.to_builtins(value)
    written: str = yaml.dump(plain, Dumper=yaml.SafeDumper, allow_unicode=False, sort_keys=False)
    return written


def _documents(text: bytes, where: str) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Nine lines of aliases can grow to gigabytes, and no tool of Kubernetes writes any.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise InputError("has aliases", where=where, expected=f"{EXPECTED}, written out")
        return list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        reason = " ".join(printable(str(problem), 200).split())
        raise InputError(f"not YAML: {reason}", where=where, expected=EXPECTED) from None


def _objects(document: Any, where: str) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise InputError("not an object", where=where, expected="Kubernetes objects")
    if isinstance(document.get("items"), list):
        for one in document["items"]:
            yield from _objects(one, where)
        return
    yield document
