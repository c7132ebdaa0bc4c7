"""What is written for projects: objects that are made or applied, and statuses.

A namespace and a queue are created, never applied to, where they are not known to be the project's: so one
that others made is never changed. What is inside has names of ours, and is applied with force over what
others wrote in our fields. Before each write ``may_write`` is asked: whether this process still leads.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.project_status import project_status, project_status_patch
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.replica import Key
from gpufleet.kube.resources import GPU_PROJECTS, NAMESPACES, Kind
from gpufleet.kube.status import AlreadyExists, Conflict, NotFound
from gpufleet.operator.projects import project_keys as keys
from gpufleet.operator.projects.differences import ProjectObject, differs
from gpufleet.operator.projects.project_condition import READY, ProjectCondition
from gpufleet.operator.projects.wanted_objects import WantedObject

LOG = logging.getLogger(__name__)
Found = Mapping[Kind, Mapping[Key, ProjectObject]]


class ProjectWriter:
    """Writes of one leader. ``found`` gives the objects that are known to belong to projects."""

    def __init__(self, client: Client, found: Callable[[], Found], may_write: Callable[[], bool]) -> None:
        self._client = client
        self._found_now = found
        self._may_write = may_write
        self._made: dict[str, str] = {}
        self.writes = 0

    def forget_seen(self) -> None:
        """Namespaces that were made count until a watch has shown them."""
        seen = {name for _, name in self._found_now()[NAMESPACES]}
        self._made = {name: project for name, project in self._made.items() if name not in seen}

    def made_for(self, project: str) -> set[str]:
        """Namespaces that were made for a project and that no watch has shown yet."""
        return {name for name, its in self._made.items() if its == project}

    def found(self, kind: Kind, namespace: str, name: str) -> ProjectObject | None:
        """The object as it is known, of those with the label of a project."""
        return self._found_now()[kind].get((namespace, name))

    async def ensure_there(self, project: str, kind: Kind, name: str) -> bool:
        """Whether an object of the cluster is there and is the project's; one that is not there is made."""
        found = self.found(kind, "", name)
        if found is not None:
            return found.metadata.labels.get(keys.PROJECT) == project
        if not self._may_write():
            return False
        metadata = {"name": name, "labels": {keys.PROJECT: project}}
        body: dict[str, object] = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": metadata,
            "spec": {},
        }
        try:
            await self._client.create(kind, body, name=name)
        except AlreadyExists:
            # Another's, or ours and not seen yet: then the watch brings it.
            return False
        if kind == NAMESPACES:
            self._made[name] = project
        self.writes += 1
        return True

    async def ensure(self, wanted: WantedObject) -> bool:
        """Whether the object had to be written."""
        found = self.found(*wanted.key)
        if found is not None and not differs(wanted, found):
            return False
        # It differs all the same, so the project does not count as finished.
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

    async def tell(self, found: wire.GpuProject, told: ProjectCondition) -> bool:
        """Whether the status is as it should be."""
        before, metadata = wire.project_status_of(found), found.metadata
        status_of = partial(project_status, before, told.reason, told.message, metadata.generation)
        status = status_of(told.namespaces, self._client.clock.now(), is_ready=told.reason == READY)
        if status == before:
            return True
        if not self._may_write():
            return False
        try:
            patch = project_status_patch(status, metadata.resource_version)
            await self._client.patch(GPU_PROJECTS, metadata.name, patch, subresource="status")
        except NotFound:
            return True
        except Conflict:
            # The project is another by now; the watch brings it.
            return False
        except KubeError as error:
            LOG.warning("a status is not written", extra={"project": metadata.name, "problem": str(error)})
            return False
        self.writes += 1
        return True
