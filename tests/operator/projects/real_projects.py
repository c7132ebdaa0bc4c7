"""Projects on a real API server: how tests write them, and a leader that keeps them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.projects.project_controller import ProjectController
from tests.kube.codec.project_cases import ProjectCase, spec
from tests.kube.manifests.real_server import Person

PROJECTS = "/apis/gpufleet.io/v1alpha1/gpuprojects"
NAMESPACES = "/api/v1/namespaces"
QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VISION = f"{NAMESPACES}/vision"
QUOTA = f"{VISION}/resourcequotas/gpufleet-project"
POLICY = "/apis/networking.k8s.io/v1/namespaces/vision/networkpolicies/gpufleet-project"
BINDING = f"{RBAC}/namespaces/vision/rolebindings/gpufleet-project-members"
OPERATOR = "operator-of-projects"


def made(admin: Person, path: str, body: object) -> None:
    """Create an object."""
    status, answer = admin.ask("POST", path, body)
    assert status == 201, answer


def write(admin: Person, name: str = "vision", **fields: Any) -> None:
    """Make a project, or change it."""
    path = f"{PROJECTS}/{name}?fieldManager=root&force=true"
    body = ProjectCase("project", spec(**fields)).object(name)
    status, answer = admin.ask("PATCH", path, body, "application/apply-patch+yaml")
    assert status in {200, 201}, answer


def reason(admin: Person, name: str = "vision") -> str:
    """Why the project is as ready as it is."""
    found = admin.ask("GET", f"{PROJECTS}/{name}")[1]
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ""
    return str(status["conditions"][0]["reason"])


def condition(admin: Person, name: str) -> dict[str, str]:
    """The condition of a project as it stands."""
    found: dict[str, str] = admin.ask("GET", f"{PROJECTS}/{name}")[1]["status"]["conditions"][0]
    return found


def is_ready(admin: Person, name: str = "vision") -> bool:
    """Whether everything is there."""
    return reason(admin, name) == "AsTheProjectSays"


@contextlib.asynccontextmanager
async def running_controller(cluster: LocalCluster) -> AsyncIterator[ProjectController]:
    """A leader at work with the chart's rights, without the Lease."""
    choice = ClusterChoice(cluster.kubeconfig_for(OPERATOR, ()))
    async with connect(choice, connections=12) as connection, following(connection.client) as found:
        yield found


@contextlib.asynccontextmanager
async def following(client: Client) -> AsyncIterator[ProjectController]:
    """Rounds until the end."""
    found = ProjectController(client, lambda: True)
    task = asyncio.ensure_future(found.run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
