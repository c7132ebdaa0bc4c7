"""The objects of a running cluster: every kind of the system, in the version that the server prefers."""

from pathlib import Path
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.resources import NAMESPACES, NODES, Kind
from gpufleet.migration.sources import Source, object_of
from gpufleet.migration.systems import System
from gpufleet.model.model_errors import InputError


async def gather(system: System, kubeconfig: Path | None, context: str) -> list[Source]:
    """The system's objects. Raises InputError where the cluster has none of its kinds."""
    async with connect(ClusterChoice(kubeconfig, context)) as connection:
        return await listed(system, connection.client)


async def listed(system: System, client: Client) -> list[Source]:
    """The system's objects as a client finds them."""
    kinds = await _kinds(system, client)
    if not kinds:
        problem = f"the cluster serves no {' or '.join(system.kinds)} of {' or '.join(system.groups)}"
        raise InputError(problem, expected=f"a cluster with {system.title}, or a file")
    if system.needs_nodes:
        kinds.append(NODES)
    if system.needs_namespaces:
        kinds.append(NAMESPACES)
    found = []
    for kind in kinds:
        async for page in client.list_pages(kind):
            for raw in page.items or ():
                body: dict[str, Any] = msgspec.json.decode(raw)
                # Lists leave it to the reader to know what they are of.
                written = {**body, "apiVersion": kind.api_version, "kind": kind.name}
                found.append(object_of(written, f"{kind.name} of the cluster"))
    return found


async def _kinds(system: System, client: Client) -> list[Kind]:
    found: dict[tuple[str, str], Kind] = {}
    for group in system.groups:
        for version in await client.versions(group):
            for kind in await client.kinds(group, version):
                if kind.name in system.kinds:
                    found.setdefault((group, kind.name), kind)
    return list(found.values())
