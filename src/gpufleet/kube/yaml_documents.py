"""Kubernetes objects in a file as people keep them: documents of YAML or JSON, lists taken apart."""

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.visible import visible_text

DOCUMENTS_MAX_BYTES = 64 * 2**20
"""The bytes of one file: a hundred times the queues of a large cluster."""
DEPTH_MAX = 150
"""Levels: a pod's affinity has twelve, a schema of a definition some forty."""

VALUES_MAX = 5_000_000
"""More than a hundred thousand objects have. A small value takes far more memory than bytes of the file."""

NUMBER_CHARACTERS_MAX = 400
"""The longest that a float of 64 bits is written with has some 330."""

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
        check_events(yaml.parse(text, Loader=loader), where)
        return list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        reason = " ".join(printable(str(problem), 200).split())
        raise InputError(f"not YAML: {reason}", where=where, expected=EXPECTED) from None


def check_events(events: Iterator[yaml.Event], where: str) -> None:
    """Refuses what would make a loader of YAML grow, recurse or count without end. Raises InputError."""
    # Counted over the parser's events, before any value is built.
    depth = values = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            # Nine lines of aliases can grow to gigabytes, and no tool of Kubernetes writes any.
            raise InputError("has aliases", where=where, expected=f"{EXPECTED}, written out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and _is_endless_number(event):
            problem = f"a number of {len(event.value)} characters"
            expected = f"at most {NUMBER_CHARACTERS_MAX}, or a text in quotes"
            raise InputError(problem, where=f"{where}, line {event.start_mark.line + 1}", expected=expected)
        if depth > DEPTH_MAX:
            place = f"{where}, line {event.start_mark.line + 1}"
            raise InputError("nested too deep", where=place, expected=f"at most {DEPTH_MAX} levels")
        values += isinstance(event, yaml.NodeEvent)
        if values > VALUES_MAX:
            raise InputError("too many values", where=where, expected=f"at most {VALUES_MAX} in one file")


def _is_endless_number(event: yaml.ScalarEvent) -> bool:
    """Whether it is read as a number that is longer than any: to read one takes the square of its length."""
    text = event.value
    return len(text) > NUMBER_CHARACTERS_MAX and event.implicit[0] and text[0] in "+-.0123456789"


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
