"""The objects that a plan is about: of files, or of a cluster, in every kind with pods that it serves.

Nothing is written. A kind that may not be listed is left out and told; namespaces have to be readable, since
their labels and exceptions decide.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.admission.plan.fleet_objects import KINDS, POD, Body, FleetObjects
from gpufleet.admission.policies import ERRORS
from gpufleet.admission.runtime_class_watch import runtime_class_of
from gpufleet.completion.additions import RuntimeClass
from gpufleet.files.regular import read_regular, read_standard_input
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.objects.runtime_class import RuntimeClassObject
from gpufleet.kube.resources import (
    NAMESPACES,
    RUNTIME_CLASSES,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    Kind,
)
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.kube.yaml_documents import DOCUMENTS_MAX_BYTES, objects_of
from gpufleet.model.model_errors import InputError

STANDARD_INPUT = "-"
WEBHOOK = "gpufleet-admission"
"""The name of the webhook's configuration in the chart."""

_CLASS = msgspec.json.Decoder(RuntimeClassObject)
_BODY = msgspec.json.Decoder(Body)


class Read(msgspec.Struct):
    """What was read. ``runtime_class`` is None where the cluster does not have the one that was named."""

    objects: FleetObjects
    runtime_class: RuntimeClass | None = None
    notes: list[str] = []


def of_files(paths: Iterable[str], runtime_class: str) -> Read:
    """The objects of files. Raises InputError for one that cannot be read, or that has none."""
    found = Read(FleetObjects(), RuntimeClass(runtime_class) if runtime_class else None)
    for path in paths:
        if path == STANDARD_INPUT:
            text, where = read_standard_input(DOCUMENTS_MAX_BYTES), "standard input"
        else:
            text, where = read_regular(Path(path), DOCUMENTS_MAX_BYTES), path
        documents = objects_of(text, where)
        if not documents:
            raise InputError("no object in it", where=where, expected="objects with pods as YAML or JSON")
        for document in documents:
            _check(document, where)
            found.objects.add(document)
            if (
                document.get("kind") == RUNTIME_CLASSES.name
                and document["metadata"].get("name") == runtime_class
            ):
                found.runtime_class = runtime_class_of(msgspec.convert(document, RuntimeClassObject))
    return found


class _Owner(msgspec.Struct, rename="camel"):
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Status(msgspec.Struct):
    phase: str | None = None
    conditions: list[dict[str, Any]] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _Status | None = None


def _check(document: Body, where: str) -> None:
    try:
        msgspec.convert(document, _Object)
    except msgspec.ValidationError as error:
        place = f"{where}, {document.get('kind')}"
        raise InputError(str(error), where=place, expected="an object of Kubernetes") from None


async def of_cluster(cluster: ClusterChoice, namespaces: tuple[str, ...], runtime_class: str) -> Read:
    """The objects of a cluster, of all namespaces or of these. Raises WorldError where it does not answer."""
    async with connect(cluster) as connection:
        return await _Reading(connection.client, namespaces).read(runtime_class)


class _Reading:
    """The objects of one cluster, as they are read for a plan."""

    def __init__(self, client: Client, namespaces: tuple[str, ...]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._found = Read(FleetObjects())

    async def read(self, runtime_class: str) -> Read:
        """Everything; pods last, since of those whose owner is known only the number is kept."""
        await self._list_namespaces()
        kinds = await self._kinds()
        for kind in sorted(kinds, key=lambda one: (one.name == POD[1], one.group, one.name)):
            await self._list(kind)
        if runtime_class:
            await self._class(runtime_class)
        await self._installed(VALIDATING_POLICIES, ERRORS, "the policies")
        await self._installed(VALIDATING_WEBHOOKS, WEBHOOK, "the webhook")
        return self._found

    async def _list_namespaces(self) -> None:
        if not self._namespaces:
            async for page in self._client.list_pages(NAMESPACES):
                for raw in page.items or ():
                    self._add(NAMESPACES, raw)
        for name in self._namespaces:
            try:
                self._add(NAMESPACES, msgspec.Raw(await self._client.get(NAMESPACES, name)))
            except NotFound:
                expected = "a namespace of the cluster"
                raise InputError(
                    "no such namespace", field="--namespace", value=name, expected=expected
                ) from None

    async def _kinds(self) -> list[Kind]:
        """Every kind with pods that the server has, each in the first version that has it."""
        found: dict[tuple[str, str], Kind] = {}
        for group in sorted({group for group, _ in KINDS}):
            try:
                versions = ("v1",) if not group else await self._client.versions(group)
            except NotFound:
                continue
            for version in versions:
                for kind in await self._client.kinds(group, version):
                    if (group, kind.name) in KINDS:
                        found.setdefault((group, kind.name), kind)
        return list(found.values())

    async def _list(self, kind: Kind) -> None:
        is_whole = True
        for namespace in self._namespaces or ("",):
            try:
                async for page in self._client.list_pages(kind, namespace=namespace):
                    for raw in page.items or ():
                        self._add(kind, raw)
            except (Forbidden, NotFound) as error:
                is_whole = False
                place = f" of {namespace}" if namespace else ""
                self._found.notes.append(f"{kind.resource}{place} are left out: {error.message}")
        if kind.name == POD[1]:
            # One namespace that may not be read is enough: a pod of it may be the one that is asked about.
            self._found.objects.knows_all_pods = is_whole

    def _add(self, kind: Kind, raw: msgspec.Raw) -> None:
        body = decode(bytes(raw), _BODY)
        # Items of a list do not say what they are.
        self._found.objects.add({"apiVersion": kind.api_version, "kind": kind.name, **body})

    async def _class(self, name: str) -> None:
        try:
            self._found.runtime_class = runtime_class_of(
                decode(await self._client.get(RUNTIME_CLASSES, name), _CLASS)
            )
        except NotFound:
            self._found.notes.append(f"the cluster has no RuntimeClass {name}, and no pod is given it")

    async def _installed(self, kind: Kind, name: str, what: str) -> None:
        try:
            await self._client.get(kind, name)
        except NotFound:
            self._found.notes.append(
                f"the cluster does not have {what} ({kind.name} {name}): it judges nothing"
            )
        except Forbidden as error:
            self._found.notes.append(f"whether the cluster has {what} is not known: {error.message}")
