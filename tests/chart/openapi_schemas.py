"""JSON schemas for kubeconform from what a real API server says of its kinds (/openapi/v2).

Strict: a field that the server does not know is an error, as a misspelt one in a chart would be.
"""

import json
from pathlib import Path
from typing import Any

DEFINITION = "#/definitions/"
# What the server takes more forms of than its description says.
QUANTITY = {"type": ["string", "number"]}
INT_OR_STRING = {"type": ["string", "integer"]}

Schema = dict[str, Any]


def write_schemas(openapi: Schema, folder: Path) -> int:
    """Write one file for each kind that the server describes, and return how many."""
    count = 0
    for name, definition in openapi["definitions"].items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            schema = _standalone(openapi["definitions"], name)
            (folder / file_name(kind["kind"], kind["group"], kind["version"])).write_text(
                json.dumps(schema), encoding="utf-8"
            )
            count += 1
    return count


def file_name(kind: str, group: str, version: str) -> str:
    """As kubeconform's {{.ResourceKind}}{{.KindSuffix}}.json has it."""
    first = group.partition(".")[0]
    suffix = f"-{first}-{version}" if group else f"-{version}"
    return f"{kind}{suffix}.json".lower()


def _standalone(definitions: dict[str, Schema], name: str) -> Schema:
    """One definition with all that it refers to."""
    needed, found = {name}, {}
    while needed:
        wanted = needed.pop()
        schema = _strict(definitions[wanted])
        found[wanted] = schema
        needed |= {one for one in _references(schema) if one not in found}
    return {"$ref": DEFINITION + name, "definitions": found}


def _strict(schema: Schema) -> Schema:
    if schema.get("format") == "int-or-string":
        return INT_OR_STRING
    strict: Schema = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if "Quantity" in schema.get("description", "")[:10] and schema.get("type") == "string":
        return QUANTITY
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            strict[key] = _strict(schema[key])
    if "properties" in schema:
        strict["properties"] = {name: _strict(its) for name, its in schema["properties"].items()}
        strict.setdefault("additionalProperties", False)
    return strict


def _references(schema: object) -> set[str]:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        own = {reference.removeprefix(DEFINITION)} if isinstance(reference, str) else set()
        return own.union(*(_references(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(_references(value) for value in schema))
    return set()
