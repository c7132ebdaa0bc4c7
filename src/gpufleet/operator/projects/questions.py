"""Projects as people ask for them: made, shown, and changed by their owners. ``ending`` ends them.

The rights are those of the person who asks, and nothing here decides what an owner may do: the API server
does, by the role that the operator gives to owners and by the admission policies of ``kube.manifests``. Each
change is tied to the version that was read, so that of two changes none is lost.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.gpu_projects import read_gpu_project
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import GPU_PROJECTS, NAMESPACES, RESOURCE_QUOTAS
from gpufleet.kube.status import Conflict, Forbidden, NotFound
from gpufleet.model.gpu_project import ProjectRole
from gpufleet.model.model_errors import InputError
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.own_projects import own_projects
from gpufleet.operator.projects.project_answers import (
    NewProject,
    ProjectAnswer,
    Projects,
    QuotaAnswer,
    project_answer,
)

TRIES_MAX = 5
"""A project changes when its status does, and when another owner is at work."""

PROJECTS_SCHEMA = "gpufleet.io/projects/v1"
"""A change that breaks readers of the JSON gets another version."""

Spec = dict[str, Any]
_PROJECT = msgspec.json.Decoder(wire.GpuProject)


class _Document(msgspec.Struct, frozen=True):
    """A project as it is written, of which fields of another release are kept."""

    metadata: Metadata
    spec: Spec


class _Quota(msgspec.Struct, frozen=True):
    """A ResourceQuota, as far as what it counts."""

    status: dict[str, dict[str, str]] = {}


_QUOTA = msgspec.json.Decoder(_Quota)
_DOCUMENT = msgspec.json.Decoder(_Document)


class Person(msgspec.Struct, frozen=True):
    """A user or a group; the other is empty."""

    user: str = ""
    group: str = ""

    def __str__(self) -> str:
        return f"user {self.user}" if self.user else f"group {self.group}"

    def is_named_in(self, member: dict[str, str]) -> bool:
        """Whether a member of the spec is this one."""
        return member.get("user", "") == self.user and member.get("group", "") == self.group


def create(cluster: ClusterChoice, new: NewProject) -> ProjectAnswer:
    """Make a project. Raises InputError for what it cannot be, and KubeErrors."""
    body = new.manifest()
    # For its error alone: what is wrong is told before a cluster is asked.
    read_gpu_project(msgspec.convert(body, wire.GpuProject))
    return asyncio.run(_create(cluster, body))


async def _create(cluster: ClusterChoice, body: dict[str, Any]) -> ProjectAnswer:
    async with connect(cluster) as connection:
        made = await connection.client.create(GPU_PROJECTS, body, name=body["metadata"]["name"])
        return project_answer(decode(made, _PROJECT))


def all_projects(cluster: ClusterChoice) -> Projects:
    """All projects; for a person without the right to list them, those that the person owns."""
    return asyncio.run(_all_projects(cluster))


async def _all_projects(cluster: ClusterChoice) -> Projects:
    async with connect(cluster) as connection:
        client, notes = connection.client, []
        try:
            raw = [one async for page in client.list_pages(GPU_PROJECTS) for one in page.items or ()]
        except Forbidden:
            raw = [msgspec.Raw(await client.get(GPU_PROJECTS, name)) for name in await own_projects(client)]
            notes.append("only projects that you own: you may not list all of them")
    found = []
    for one in raw:
        try:
            found.append(project_answer(_PROJECT.decode(one)))
        except msgspec.ValidationError as error:
            notes.append(f"a project cannot be read, {error}")
    return Projects(PROJECTS_SCHEMA, tuple(sorted(found, key=lambda one: one.name)), tuple(notes))


def one_project(cluster: ClusterChoice, name: str) -> ProjectAnswer:
    """One project, with what its namespaces use of their quotas."""
    return asyncio.run(_one_project(cluster, name))


async def _one_project(cluster: ClusterChoice, name: str) -> ProjectAnswer:
    async with connect(cluster) as connection:
        client = connection.client
        told = project_answer(decode(await _get(client, name), _PROJECT))
        quotas, notes = [], []
        for namespace in told.namespaces:
            try:
                quotas += await _quotas(client, namespace)
            except NotFound:
                continue
            except Forbidden:
                notes.append(f"what namespace {namespace} uses is not known: you may not read its quota")
        return msgspec.structs.replace(told, quotas=tuple(quotas), notes=tuple(notes))


async def _quotas(client: Client, namespace: str) -> list[QuotaAnswer]:
    found = decode(await client.get(RESOURCE_QUOTAS, keys.OBJECT_NAME, namespace=namespace), _QUOTA)
    hard, used = found.status.get("hard", {}), found.status.get("used", {})
    return [QuotaAnswer(namespace, key, used.get(key), amount) for key, amount in sorted(hard.items())]


def invite(
    cluster: ClusterChoice, name: str, person: Person, role: ProjectRole
) -> tuple[ProjectAnswer, bool]:
    """Make a person or a group a member; whether that changed anything."""

    def change(spec: Spec) -> Spec:
        members = [one for one in spec.get("members", []) if not person.is_named_in(one)]
        named = {"user": person.user} if person.user else {"group": person.group}
        before = [one for one in spec.get("members", []) if person.is_named_in(one)]
        # A member that is named twice is written anew, once.
        if [one.get("role") for one in before] == [role.value]:
            return {}
        return {"members": [*members, {**named, "role": role.value}]}

    return asyncio.run(_change(cluster, name, change))


def remove(cluster: ClusterChoice, name: str, person: Person) -> ProjectAnswer:
    """Take a member out. Raises InputError where there is none of that name."""

    def change(spec: Spec) -> Spec:
        members = spec.get("members", [])
        left = [one for one in members if not person.is_named_in(one)]
        if len(left) == len(members):
            known = ", ".join(one.get("user") or one.get("group", "") for one in members) or "none"
            value = person.user or person.group
            raise InputError(f"no member of {name}", value=value, expected=f"one of its members: {known}")
        return {"members": left}

    return asyncio.run(_change(cluster, name, change))[0]


def add_namespace(cluster: ClusterChoice, name: str, namespace: str) -> tuple[ProjectAnswer, bool]:
    """Name a namespace, which the operator makes; whether that changed anything."""

    def change(spec: Spec) -> Spec:
        names = spec.get("namespaces", [])
        return {} if namespace in names else {"namespaces": [*names, namespace]}

    return asyncio.run(_change(cluster, name, change))


def remove_namespace(cluster: ClusterChoice, name: str, namespace: str) -> ProjectAnswer:
    """Delete a namespace with all that is in it, and name it no more.

    It is named until it is being deleted: the person gets the right to end it from a binding in it.
    """
    return asyncio.run(_remove_namespace(cluster, name, namespace))


async def _remove_namespace(cluster: ClusterChoice, name: str, namespace: str) -> ProjectAnswer:
    def change(spec: Spec) -> Spec:
        names = spec.get("namespaces", [])
        if namespace not in names:
            known = ", ".join(names)
            raise InputError(f"no namespace of {name}", value=namespace, expected=f"one of {known}")
        return {"namespaces": [one for one in names if one != namespace]}

    async with connect(cluster) as connection:
        client = connection.client
        # The server says first whether the project may do without it: a deletion cannot be taken back.
        await _changed(client, name, change, dry_run=True)
        # Gone, or on its way.
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(NAMESPACES, namespace)
        return (await _changed(client, name, change, dry_run=False))[0]


async def _change(
    cluster: ClusterChoice, name: str, change: Callable[[Spec], Spec]
) -> tuple[ProjectAnswer, bool]:
    async with connect(cluster) as connection:
        return await _changed(connection.client, name, change, dry_run=False)


async def _changed(
    client: Client, name: str, change: Callable[[Spec], Spec], *, dry_run: bool
) -> tuple[ProjectAnswer, bool]:
    for attempt in range(1, TRIES_MAX + 1):
        raw = await _get(client, name)
        document = decode(raw, _DOCUMENT)
        fields = change(document.spec)
        if not fields:
            return project_answer(decode(raw, _PROJECT)), False
        version = document.metadata.resource_version
        patch = {"metadata": {"resourceVersion": version}, "spec": fields}
        try:
            written = await client.patch(GPU_PROJECTS, name, patch, dry_run=dry_run)
        except Conflict:
            if attempt == TRIES_MAX:
                raise
            continue
        return project_answer(decode(written, _PROJECT)), True
    raise AssertionError("the last attempt returns or raises")


async def _get(client: Client, name: str) -> bytes:
    try:
        return await client.get(GPU_PROJECTS, name)
    except NotFound as error:
        expected = "a project of `gpufleet project list`"
        raise InputError("no such project", value=name, expected=expected) from error
