"""Label and field selectors of lists and watches, as ``k8s.io/apimachinery`` reads them."""

import re
from collections.abc import Callable
from typing import Any

from gpufleet.simulation.refusal import JsonObject, bad_request

Predicate = Callable[[JsonObject], bool]

FIELDS_OF_ALL = ("metadata.name", "metadata.namespace")
FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "resourceslices": ("spec.nodeName", "spec.driver"),
    "events": ("involvedObject.uid", "involvedObject.name", "involvedObject.namespace", "reason", "type"),
}
_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s,=!()]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")


def read_field(value: JsonObject, path: str) -> str:
    """A field as selectors see it: "" where it is absent."""
    found: Any = value
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None:
        # Go has no absent bool: what was left out is false.
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(found)


def field_predicate(plural: str, text: str) -> Predicate | None:
    """A field selector as a test of an object, None for the empty one."""
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, text.split(",")):
        found = _EQUAL.match(term)
        if found is None:
            raise bad_request(f'invalid field selector: "{text}"; can\'t understand "{term}"')
        path, operator, wanted = found.groups()
        if path not in FIELDS_OF_ALL and path not in FIELDS.get(plural, ()):
            raise bad_request(f"field label not supported: {path}")
        terms.append((path, operator != "!=", wanted))
    if not terms:
        return None
    return lambda value: all((read_field(value, path) == wanted) is same for path, same, wanted in terms)


def label_predicate(text: str) -> Predicate | None:
    """A label selector as a test of an object, None for the empty one."""
    terms = [_label_term(term, text) for term in _split(text)]
    if not terms:
        return None
    return lambda value: all(term(value["metadata"].get("labels") or {}) for term in terms)


def _split(text: str) -> list[str]:
    """The parts of a selector, split at commas outside of brackets."""
    return [term for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def _label_term(term: str, text: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(term):
        key, operator, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(term):
        key, operator, wanted = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != wanted
        return lambda labels: labels.get(key) == wanted
    if found := _EXISTS.match(term):
        absent, key = bool(found[1]), found[2]
        return lambda labels: (key in labels) is not absent
    raise bad_request(f"unable to parse requirement: {text}")
