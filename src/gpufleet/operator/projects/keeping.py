"""Projects at work: what each says is made and kept, and its status tells how far it is.

Level-driven: each round looks at everything that is there and writes what differs, in an order where each
kill leaves a state that the next round goes on from. A namespace is created, never applied to, where it is
not known to be the project's: so one that others made is never changed. What is inside has names of ours, and
is applied with force over what others wrote in our fields. Nothing is ever deleted here.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.gpu_projects import read_gpu_project
from gpufleet.kube.codec.project_status import project_status, project_status_patch
from gpufleet.kube.kube_errors import KubeError, ObjectError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.resources import GPU_PROJECTS, NAMESPACES, Kind
from gpufleet.kube.status import AlreadyExists, NotFound
from gpufleet.model.gpu_project import GpuProject
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject, differs
from gpufleet.operator.projects.wanted_objects import KINDS, WantedObject, wanted_objects

LOG = logging.getLogger(__name__)
GATHER_S = 0.2
"""How long changes are gathered before a round, as the operator does for nodes."""

RETRY_S = 2.0
"""After a round with a write that failed or that no watch has shown: drift is to be repaired within 10 s."""

PROJECTS_AT_ONCE = 8
"""Projects that are written side by side; the writes of one follow each other."""

READY, TAKEN, REFUSED, NOT_WRITTEN, WRITING = (
    "AsTheProjectSays",
    "NamespaceTaken",
    "Refused",
    "NotWritten",
    "Writing",
)
"""The reasons of the condition."""

UNREADABLE = "the object has fields of another version of gpufleet"
_PROJECT = msgspec.json.Decoder(wire.GpuProject)
_OBJECT = msgspec.json.Decoder(ProjectObject)


class Told(msgspec.Struct, frozen=True):
    """How far a project is, with the reason and a sentence."""

    reason: str
    message: str


class Projects:
    """A leader's rounds. ``may_write`` is asked before each write: whether this process still leads."""

    def __init__(self, client: Client, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._may_write = may_write
        self._changed = asyncio.Event()
        self.rounds = 0
        self.writes = 0
        self.projects = Mirror(client, GPU_PROJECTS, _PROJECT, self._heard_of_project, optional=True)
        ours = Selection(labels=keys.PROJECT)
        self.objects = {
            kind: Mirror(client, kind, _OBJECT, self._heard_of_object, selection=ours) for kind in KINDS
        }

    async def run(self) -> None:
        """Follow and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.projects.run())
            for mirror in self.objects.values():
                group.create_task(mirror.run())
            await self.projects.wait_listed()
            for mirror in self.objects.values():
                await mirror.wait_listed()
            group.create_task(self._rounds())

    async def _rounds(self) -> None:
        pause_s: float | None = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            await self._client.clock.sleep(GATHER_S)
            self._changed.clear()
            pause_s = None if await self.turn() else RETRY_S

    async def turn(self) -> bool:
        """One round; whether everything was as it must be, so that only a change can bring another one."""
        gate = asyncio.Semaphore(PROJECTS_AT_ONCE)
        results = await asyncio.gather(
            *(self._keep(gate, one) for one in list(self.projects.objects.values())),
            *(self._tell_unreadable(name) for _, name in list(self.projects.unreadable)),
        )
        self.rounds += 1
        return all(results)

    async def _keep(self, gate: asyncio.Semaphore, found: wire.GpuProject) -> bool:
        if found.metadata.deletion_timestamp is not None:
            return True
        try:
            project = read_gpu_project(found)
        except ObjectError as error:
            return await self._tell(found, Told(REFUSED, str(error)))
        async with gate:
            told = await self._write(project)
        is_told = await self._tell(found, told)
        return is_told and told.reason in {READY, TAKEN}

    async def _write(self, project: GpuProject) -> Told:
        """Write what differs, and say how far the project is."""
        taken, written = [], 0
        for namespace in project.namespaces:
            try:
                if not await self._ensure_namespace(project, namespace):
                    taken.append(namespace)
                    continue
                for wanted in wanted_objects(project, namespace):
                    written += await self._ensure(wanted)
            except KubeError as error:
                LOG.warning(
                    "a project is not written", extra={"project": project.name, "problem": str(error)}
                )
                return Told(NOT_WRITTEN, f"namespace {namespace} is not written: {error}")
        if taken:
            names = ", ".join(taken)
            way = f"label them {keys.PROJECT}={project.name} to give them to it, or name others"
            return Told(TAKEN, f"namespaces that belong to others are left as they are ({names}); {way}")
        if written:
            return Told(WRITING, "what differed was written and is not seen yet")
        return Told(READY, "everything that the project says is there")

    async def _ensure_namespace(self, project: GpuProject, namespace: str) -> bool:
        """Whether the namespace is there and is the project's; one that is not there is made."""
        found = self._found(NAMESPACES, "", namespace)
        if found is not None:
            return found.metadata.labels.get(keys.PROJECT) == project.name
        if not self._may_write():
            return False
        metadata = {"name": namespace, "labels": {keys.PROJECT: project.name}}
        body = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.name, "metadata": metadata}
        try:
            await self._client.create(NAMESPACES, body, name=namespace)
        except AlreadyExists:
            # Another's, or ours and not seen yet: then the watch brings it.
            return False
        self.writes += 1
        return True

    async def _ensure(self, wanted: WantedObject) -> bool:
        """Whether the object had to be written."""
        found = self._found(*wanted.key)
        if found is not None and not differs(wanted, found):
            return False
        if not self._may_write():
            return True
        await self._client.patch(
            wanted.kind,
            wanted.name,
            wanted.body,
            namespace=wanted.namespace,
            patch_type=PatchType.APPLY,
            field_manager=keys.FIELD_MANAGER,
            force=True,
        )
        self.writes += 1
        return True

    def _found(self, kind: Kind, namespace: str, name: str) -> ProjectObject | None:
        return self.objects[kind].objects.get((namespace, name))

    async def _tell_unreadable(self, name: str) -> bool:
        LOG.warning("a project cannot be read", extra={"project": name, "problem": UNREADABLE})
        return True

    async def _tell(self, found: wire.GpuProject, told: Told) -> bool:
        """Whether the status is as it should be."""
        before, metadata = wire.project_status_of(found), found.metadata
        status_of = partial(project_status, before, told.reason, told.message, metadata.generation)
        status = status_of(self._client.clock.now(), is_ready=told.reason == READY)
        if status == before:
            return True
        if not self._may_write():
            return False
        try:
            patch = project_status_patch(status)
            await self._client.patch(GPU_PROJECTS, metadata.name, patch, subresource="status")
        except NotFound:
            return True
        except KubeError as error:
            LOG.warning("a status is not written", extra={"project": metadata.name, "problem": str(error)})
            return False
        self.writes += 1
        return True

    def _heard_of_project(self, _: Change[wire.GpuProject]) -> None:
        self._changed.set()

    def _heard_of_object(self, _: Change[ProjectObject]) -> None:
        self._changed.set()
