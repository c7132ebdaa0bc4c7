"""The controller of projects: what each says is made and kept, and its status tells how far it is.

Level-driven: each round looks at everything that is there and writes what differs, in an order where each
kill leaves a state that the next round goes on from. ``writing`` says what is never changed. A namespace is
made only after the status names it, which counts against the limit of owners: so a change of an owner in
between makes no more of them. Nothing is ever deleted here; bindings that no project gives any more
are emptied. Projects at rest of which nothing changed (``pending_projects``) are not looked at.
"""

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.codec.gpu_projects import read_gpu_project
from gpufleet.kube.kube_errors import KubeError, ObjectError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.replica import Key
from gpufleet.kube.resources import FLEET_QUEUES, GPU_PROJECTS, NAMESPACES
from gpufleet.kube.status import NotFound
from gpufleet.model.gpu_project import GpuProject
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.pending_projects import PendingProjects
from gpufleet.operator.projects.project_condition import (
    AT_REST,
    ENDING,
    LEAVING,
    NOT_WRITTEN,
    QUEUE_TAKEN,
    READY,
    REFUSED,
    SETTLED,
    TAKEN,
    UNREADABLE,
    WRITING,
    ProjectCondition,
)
from gpufleet.operator.projects.released_rights import given_rights, released
from gpufleet.operator.projects.wanted_objects import KINDS, owners_rights, wanted_objects, wanted_queue
from gpufleet.operator.projects.writing import Found, ProjectWriter

LOG = logging.getLogger(__name__)
GATHER_S = 0.2
"""How long changes are gathered before a round, as the operator does for nodes."""

RETRY_S = 2.0
"""After a round with a write that failed or that no watch has shown: drift is to be repaired within 10 s."""

PROJECTS_AT_ONCE = 8
"""Projects that are written side by side; the writes of one follow each other."""

PROJECTS_IN_A_ROUND = 64
"""So many are looked at before it is seen what changed meanwhile: their writes take about a second."""

_PROJECT = msgspec.json.Decoder(wire.GpuProject)
_OBJECT = msgspec.json.Decoder(ProjectObject)


Reading = GpuProject | ObjectError
"""What a project says, or why it cannot be."""

Readings = Mapping[str, tuple[wire.GpuProject, Reading]]
"""Every project by its name, as it was written and as it was read."""


class _Head(Structure, frozen=True):
    """A project that cannot be read, as far as its status is written."""

    metadata: Metadata
    status: msgspec.Raw = msgspec.Raw(b"{}")


_HEAD = msgspec.json.Decoder(_Head)


class ProjectController:
    """A leader's rounds. ``may_write`` is asked before each write: whether this process still leads."""

    def __init__(self, client: Client, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._pending = PendingProjects()
        self._readings: dict[str, tuple[wire.GpuProject, Reading]] = {}
        self._namespaces: Mapping[str, set[str]] = {}
        self._reasons: dict[str, str] = {}
        self.rounds = 0
        self.projects = Mirror(client, GPU_PROJECTS, _PROJECT, self._on_project, optional=True)
        ours = Selection(labels=keys.PROJECT)
        self.objects = {
            kind: Mirror(
                client,
                kind,
                _OBJECT,
                self._on_object,
                selection=ours,
                optional=kind == FLEET_QUEUES,
            )
            for kind in KINDS
        }
        self._writer = ProjectWriter(client, self._found, may_write)

    @property
    def writes(self) -> int:
        """How much was written."""
        return self._writer.writes

    def _found(self) -> Found:
        return {kind: mirror.objects for kind, mirror in self.objects.items()}

    def counts(self) -> Mapping[str, int]:
        """How many projects there are by the reason of their condition, as far as they were looked at."""
        there = [name for _, name in self.projects.objects]
        return Counter(self._reasons[name] for name in there if name in self._reasons)

    async def run(self) -> None:
        """Follow and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.projects.run())
            for mirror in self.objects.values():
                group.create_task(mirror.run())
            # No round before all is listed: what is not known yet would look as if it were missing.
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
            # Before the round and not after it: what changes while it is under way makes another one.
            self._changed.clear()
            pause_s = None if await self.turn() else RETRY_S

    async def turn(self) -> bool:
        """One round; whether everything was as it must be, so that only a change can bring another one."""
        gate = asyncio.Semaphore(PROJECTS_AT_ONCE)
        self._writer.forget_seen()
        self._namespaces = _by_project(self.objects[NAMESPACES].objects)
        unreadable = [name for _, name in self.projects.unreadable]
        readings = self._read_all(unreadable)
        self._reasons = {name: reason for name, reason in self._reasons.items() if name in readings}
        pending = self._pending.take(PROJECTS_IN_A_ROUND)
        if self._pending.has_changes():
            # The others have the next round, at once.
            self._changed.set()
        is_released = await self._release(readings, unreadable)
        results = await asyncio.gather(
            *(self._keep(gate, *readings[name]) for name in pending if name in readings),
            *(self._tell_unreadable(name) for name in unreadable),
        )
        self.rounds += 1
        return is_released and all(results) and not self._pending.is_unfinished()

    def _read_all(self, unreadable: list[str]) -> Readings:
        """What each project says. Of one that cannot be read the version before counts no more."""
        before = self._readings
        self._readings = {}
        for (_, name), found in self.projects.objects.items():
            if name not in unreadable:
                known = before.get(name)
                is_known = known is not None and known[0] is found
                self._readings[name] = known if known and is_known else (found, _read(found))
        return self._readings

    async def _release(self, readings: Readings, unreadable: list[str]) -> bool:
        """Empty the bindings that no project gives; whether there was none. Before rights are given."""
        unknown = {name for name, (_, reading) in readings.items() if isinstance(reading, ObjectError)}
        projects = [
            reading
            for one, reading in readings.values()
            if not isinstance(reading, ObjectError) and not _is_ending(one)
        ]
        given = given_rights(projects, self.objects[NAMESPACES].objects)
        bindings = released(self._found(), given, {*unreadable, *unknown})
        for wanted in bindings:
            try:
                await self._writer.ensure(wanted)
            except KubeError as error:
                where = {"namespace": wanted.namespace, "binding": wanted.name}
                LOG.warning("rights are not taken back", extra={**where, "problem": str(error)})
        return not bindings

    async def _keep(self, gate: asyncio.Semaphore, found: wire.GpuProject, reading: Reading) -> bool:
        if found.metadata.deletion_timestamp is not None:
            return True
        async with gate:
            told = await self._condition(found, reading)
            is_told = await self._writer.tell(found, told)
        self._reasons[found.metadata.name] = told.reason
        is_at_rest = is_told and told.reason in AT_REST
        if is_told and told.reason in SETTLED:
            self._pending.rest(found.metadata.name)
        else:
            self._pending.put_back(found.metadata.name, is_at_rest=is_at_rest)
        return is_at_rest

    async def _condition(self, found: wire.GpuProject, reading: Reading) -> ProjectCondition:
        held = self._held(found.metadata.name)
        if _is_ending(found):
            message = "it is being deleted: nothing is made, and no rights are given"
            return ProjectCondition(ENDING, message, tuple(sorted(held)))
        if isinstance(reading, ObjectError):
            return ProjectCondition(REFUSED, str(reading), tuple(sorted(held)))
        namespaces = tuple(sorted(held | {*reading.namespaces}))
        if not set(namespaces) <= set(wire.project_status_of(found).namespaces):
            # Written first, and seen before anything is made.
            return ProjectCondition(WRITING, "its namespaces are being made", namespaces)
        told = await self._write(reading)
        return msgspec.structs.replace(told, namespaces=namespaces)

    def _held(self, project: str) -> set[str]:
        """The namespaces that a project has or had, and that are there."""
        return self._namespaces.get(project, set()) | self._writer.made_for(project)

    async def _write(self, project: GpuProject) -> ProjectCondition:
        """Write what differs, and say how far the project is."""
        problems: list[ProjectCondition] = []
        try:
            written = await self._write_queue(project, problems)
            for namespace in project.namespaces:
                written += await self._write_namespace(project, namespace, problems)
            for wanted in owners_rights(project):
                written += await self._writer.ensure(wanted)
        except KubeError as error:
            LOG.warning("a project is not written", extra={"project": project.name, "problem": str(error)})
            return ProjectCondition(NOT_WRITTEN, f"not everything is written: {error}")
        if problems:
            return ProjectCondition(problems[0].reason, "; ".join(one.message for one in problems))
        if written:
            return ProjectCondition(WRITING, "what differed was written and is not seen yet")
        return ProjectCondition(READY, "everything that the project says is there")

    async def _write_queue(self, project: GpuProject, problems: list[ProjectCondition]) -> int:
        """The queue that the project makes; how much was written."""
        wanted = wanted_queue(project)
        if wanted is None:
            return 0
        if await self._writer.ensure_there(project.name, FLEET_QUEUES, wanted.name):
            return int(await self._writer.ensure(wanted))
        way = "name another as queue, or leave ownQueue out to use it as it is"
        message = f"FleetQueue {wanted.name} belongs to others and is left as it is; {way}"
        problems.append(ProjectCondition(QUEUE_TAKEN, message))
        return 0

    async def _write_namespace(
        self, project: GpuProject, namespace: str, problems: list[ProjectCondition]
    ) -> int:
        """One namespace with all that is in it; how much was written."""
        found = self._writer.found(NAMESPACES, "", namespace)
        if found is not None and found.metadata.deletion_timestamp is not None:
            message = f"namespace {namespace} is being deleted; it is made anew when it is gone"
            problems.append(ProjectCondition(LEAVING, message))
            return 0
        if not await self._writer.ensure_there(project.name, NAMESPACES, namespace):
            owner = "" if found is None else found.metadata.labels.get(keys.PROJECT, "")
            whose = f"project {owner}" if owner else "others"
            way = f"label it {keys.PROJECT}={project.name} to give it to this project, or name another"
            message = f"namespace {namespace} belongs to {whose} and is left as it is; {way}"
            problems.append(ProjectCondition(TAKEN, message))
            return 0
        return sum([await self._writer.ensure(wanted) for wanted in wanted_objects(project, namespace)])

    async def _tell_unreadable(self, name: str) -> bool:
        LOG.warning("a project cannot be read", extra={"project": name, "problem": UNREADABLE})
        try:
            head = _HEAD.decode(await self._client.get(GPU_PROJECTS, name))
        except NotFound:
            return True
        except KubeError:
            return False
        found = wire.GpuProject(head.metadata, wire.GpuProjectSpec(namespaces=()), head.status)
        told = ProjectCondition(REFUSED, UNREADABLE, tuple(sorted(self._held(name))))
        return await self._writer.tell(found, told)

    def _on_project(self, change: Change[wire.GpuProject]) -> None:
        self._pending.on_project(change)
        self._changed.set()

    def _on_object(self, change: Change[ProjectObject]) -> None:
        self._pending.on_object(change)
        self._changed.set()


def _read(found: wire.GpuProject) -> Reading:
    try:
        return read_gpu_project(found)
    except ObjectError as error:
        return error


def _by_project(namespaces: Mapping[Key, ProjectObject]) -> Mapping[str, set[str]]:
    """The names of namespaces by the project that their label names."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for (_, name), one in namespaces.items():
        found[one.metadata.labels.get(keys.PROJECT, "")].add(name)
    return found


def _is_ending(found: wire.GpuProject) -> bool:
    return keys.ENDING in found.metadata.annotations
