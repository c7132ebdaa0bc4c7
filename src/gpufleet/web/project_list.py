"""Which projects there are, whether they are as they say, and why not: as ``gpufleet project list`` tells it.

The API server is asked when a page asks, and the answer is kept for a moment, however many pages are open.
"""

import asyncio

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.gpu_projects import GpuProject
from gpufleet.kube.resources import GPU_PROJECTS
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.operator.projects.project_answers import ProjectAnswer, project_answer
from gpufleet.web.documents import ProjectMember, ProjectRow, ProjectsDocument, Refusal
from gpufleet.web.login.person import RefusedError
from gpufleet.web.rights import Rights

KEPT_S = 5.0
"""As long as the operator has to make a project ready: a person who waits for one sees it come."""

NOT_YOURS = Refusal(
    "you may not list gpuprojects",
    way_out="`gpufleet project list` shows those that you own; an administrator may list all",
)
NOT_INSTALLED = "this cluster has no GpuProjects: the operator's definitions are not installed"

_PROJECT = msgspec.json.Decoder(GpuProject)


class ProjectList:
    """The newest answer about projects, which all open pages share."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._found: ProjectsDocument | None = None
        self._found_at_s = 0.0

    async def now(self, rights: Rights) -> ProjectsDocument:
        """All projects. Raises RefusedError where a person may not list them, and where none are known."""
        if not rights.projects:
            raise RefusedError(403, NOT_YOURS)
        async with self._turn:
            now_s = self._client.clock.monotonic_s()
            if self._found is None or now_s - self._found_at_s > KEPT_S:
                self._found = await self._read()
                self._found_at_s = self._client.clock.monotonic_s()
            return self._found

    async def _read(self) -> ProjectsDocument:
        at = whole_time(self._client.clock.now())
        rows: list[ProjectRow] = []
        notes: list[str] = []
        try:
            async for page in self._client.list_pages(GPU_PROJECTS):
                for raw in page.items or ():
                    try:
                        rows.append(_row(project_answer(_PROJECT.decode(raw))))
                    except msgspec.ValidationError as error:
                        notes.append(f"a project cannot be read, {error}")
        except Forbidden as error:
            raise RefusedError(403, NOT_YOURS) from error
        except NotFound:
            notes.append(NOT_INSTALLED)
        except KubeError as error:
            raise RefusedError(
                503, Refusal(f"projects are not known: {error}", way_out="try again")
            ) from error
        return ProjectsDocument(at, tuple(sorted(rows, key=lambda one: one.key)), tuple(notes))


def _row(told: ProjectAnswer) -> ProjectRow:
    return ProjectRow(
        told.name,
        told.team,
        told.namespaces,
        told.left,
        tuple(ProjectMember(one.role, one.user, one.group) for one in told.members),
        told.queue,
        told.ready,
        told.reason,
        told.message,
    )
