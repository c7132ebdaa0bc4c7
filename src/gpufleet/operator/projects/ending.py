"""The end of a project: its namespaces with all that is in them, its queue, its rights, and itself.

The rights are those of the person who asks: the operator may delete nothing. The project is marked first, so
that the operator makes nothing anew and takes all rights back, and is deleted last. So a kill at any write
leaves a state from which the same call goes on, also where the project itself is gone already.
"""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    FLEET_QUEUES,
    GPU_PROJECTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Kind,
)
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.gpu_project import RESERVED_NAMESPACES, RESERVED_PREFIX
from gpufleet.model.model_errors import InputError
from gpufleet.operator.projects import project_keys as keys

POLL_EVERY_S = 1.0
"""Short beside the 30 s that a pod has to end."""

OF_CLUSTER = (FLEET_QUEUES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
"""What a project has beside its namespaces, in the order in which it goes."""

_PARTIAL = msgspec.json.Decoder(PartialObject)


class NamespaceContent(msgspec.Struct, frozen=True, rename="camel"):
    """What ends with a namespace."""

    name: str
    pods: int
    volume_claims: int


class ProjectContent(msgspec.Struct, frozen=True):
    """What ends with a project. ``objects`` are a kind and a name each. Without ``exists`` it is gone."""

    name: str
    exists: bool
    namespaces: tuple[NamespaceContent, ...]
    objects: tuple[tuple[str, str], ...]

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing of the project."""
        return not (self.exists or self.namespaces or self.objects)


async def content_of(client: Client, name: str) -> ProjectContent:
    """What there is of a project. Raises KubeErrors, and InputError for a namespace that may not end."""
    namespaces = []
    for one in await _named(client, NAMESPACES, name):
        _check_not_reserved(one.name)
        pods = [page.items or () async for page in client.list_pages(PODS, namespace=one.name)]
        claims = client.list_pages(PERSISTENT_VOLUME_CLAIMS, namespace=one.name)
        volumes = [page.items or () async for page in claims]
        namespaces.append(NamespaceContent(one.name, sum(map(len, pods)), sum(map(len, volumes))))
    objects = [(kind.name, one.name) for kind in OF_CLUSTER for one in await _named(client, kind, name)]
    return ProjectContent(name, await _exists(client, name), tuple(namespaces), tuple(objects))


async def end(client: Client, name: str, wait_s: float) -> tuple[str, ...]:
    """End a project; the namespaces that are still ending after ``wait_s``. Raises KubeErrors.

    While any is left the project stays, marked, and the same call goes on later.
    """
    await _mark(client, name)
    left = await _end_namespaces(client, name, wait_s)
    if left:
        return left
    for kind in OF_CLUSTER:
        for one in await _named(client, kind, name):
            await _delete(client, kind, one)
    with contextlib.suppress(NotFound):
        await client.delete(GPU_PROJECTS, name)
    # An operator that had not seen the mark yet may have made one of them anew.
    return await _end_namespaces(client, name, wait_s)


async def _mark(client: Client, name: str) -> None:
    try:
        await client.patch(GPU_PROJECTS, name, {"metadata": {"annotations": {keys.ENDING: "true"}}})
    except NotFound:
        return


async def _end_namespaces(client: Client, name: str, wait_s: float) -> tuple[str, ...]:
    waited_s = 0.0
    while True:
        found = await _named(client, NAMESPACES, name)
        for one in found:
            _check_not_reserved(one.name)
            if one.deletion_timestamp is None:
                await _delete(client, NAMESPACES, one)
        if not found or waited_s >= wait_s:
            return tuple(one.name for one in found)
        await client.clock.sleep(POLL_EVERY_S)
        waited_s += POLL_EVERY_S


async def _delete(client: Client, kind: Kind, metadata: Metadata) -> None:
    try:
        await client.delete(kind, metadata.name, uid=metadata.uid)
    except (NotFound, Conflict):
        # Gone, on its way, or another of the same name.
        return


async def _named(client: Client, kind: Kind, project: str) -> list[Metadata]:
    """The objects of a kind that belong to a project."""
    return [one async for one in _labelled(client, kind, project)]


async def _labelled(client: Client, kind: Kind, project: str) -> AsyncIterator[Metadata]:
    selection = Selection(labels=f"{keys.PROJECT}={project}")
    async for page in client.list_pages(kind, selection=selection):
        for raw in page.items or ():
            metadata = _PARTIAL.decode(raw).metadata
            is_role = kind in {CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS}
            # A label alone, which any role may bear, deletes none.
            if not is_role or metadata.name == f"{keys.PROJECT_ROLE_PREFIX}{project}":
                yield metadata


async def _exists(client: Client, name: str) -> bool:
    try:
        await client.get(GPU_PROJECTS, name)
    except NotFound:
        return False
    return True


def _check_not_reserved(name: str) -> None:
    if name in RESERVED_NAMESPACES or name.startswith(RESERVED_PREFIX):
        problem = f"a namespace of the cluster's own bears the label {keys.PROJECT}"
        way = f"no such label: kubectl label namespace {name} {keys.PROJECT}-"
        raise InputError(problem, value=name, expected=way)
