"""Whether the server's definitions of gpufleet's kinds know every field that this program writes and reads.

A field that the served definition does not know is pruned without a word, so that a queue or policy says less
than its author wrote. The schemas are read from the OpenAPI documents, which every account may read, so that
no right to definitions is needed. ``gpufleet check`` tells what is missing; the scheduler and the
operator wait until it is there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.manifests import definitions
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import NotFound

FIELDS_SHOWN_MAX = 5
"""Names of fields in one sentence: an older definition may lack dozens."""

Schema = Mapping[str, Any]
"""A node of an OpenAPI v3 schema, as JSON."""

_ANY = msgspec.json.Decoder(dict[str, Any])


async def missing_fields(
    client: Client, kinds: tuple[Kind, ...], *, served_only: bool = False
) -> tuple[str, ...]:
    """Fields that this program knows and the server's definitions do not, such as "FleetPolicy spec.driver".

    A kind that is not served at all is missing as a whole, or left out with ``served_only``. Raises
    KubeError.
    """
    shipped = {str(one["spec"]["names"]["kind"]): one for one in definitions()}
    found: list[str] = []
    for root in dict.fromkeys(kind.root for kind in kinds):
        served = await _served(client, root)
        for kind in kinds:
            if kind.root == root and (kind.name in served or not served_only):
                found += _missing(kind, shipped[kind.name], served.get(kind.name))
    return tuple(found)


def words(missing: tuple[str, ...]) -> str:
    """The sentence about fields that are missing."""
    shown = ", ".join(missing[:FIELDS_SHOWN_MAX])
    more = f" and {len(missing) - FIELDS_SHOWN_MAX} more" if len(missing) > FIELDS_SHOWN_MAX else ""
    return (
        f"the cluster's definitions are of another release and would drop {shown}{more}: "
        "upgrade them (helm upgrade with crds.install=true, or kubectl apply the chart's definitions)"
    )


def missing_in(shipped: Schema, served: Schema, path: str = "") -> Iterator[str]:
    """Fields of one schema that another one would drop, by their path."""
    if _keeps_unknown(served):
        return
    for name, below in shipped.get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        there = served.get("properties", {}).get(name)
        if there is None:
            yield place
        else:
            yield from missing_in(below, there, place)
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        below, there = shipped.get(key), served.get(key)
        # Items without fields of their own have none that could be dropped.
        if isinstance(below, dict) and below.get("properties"):
            if isinstance(there, dict):
                yield from missing_in(below, there, f"{path}{suffix}")
            else:
                yield f"{path}{suffix}"


def _keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _missing(kind: Kind, shipped: Schema, served: Schema | None) -> list[str]:
    if served is None:
        return [kind.name]
    version = next(one for one in shipped["spec"]["versions"] if one["name"] == kind.version)
    schema = version["schema"]["openAPIV3Schema"]
    # Of metadata a definition says nothing: it is the server's.
    own = {name: one for name, one in schema["properties"].items() if name != "metadata"}
    return [f"{kind.name} {field}" for field in missing_in({"properties": own}, served)]


async def _served(client: Client, root: str) -> dict[str, Schema]:
    """The schemas of a group and version by kind; none where the server has no such group."""
    try:
        document = decode(await client.read(f"/openapi/v3{root}"), _ANY)
    except NotFound:
        return {}
    found: dict[str, Schema] = {}
    for schema in document.get("components", {}).get("schemas", {}).values():
        for one in schema.get("x-kubernetes-group-version-kind", ()):
            found[str(one.get("kind"))] = schema
    return found
