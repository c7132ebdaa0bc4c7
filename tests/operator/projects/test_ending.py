"""The end of a project on a real API server: nothing is left, and a kill at any write is gone on from."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.model_errors import InputError
from gpufleet.operator.projects.ending import content_of, end
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import (
    NAMESPACES,
    PROJECTS,
    QUEUES,
    RBAC,
    is_ready,
    made,
    running_controller,
    write,
)
from tests.operator.real_server import Killed, KillingTransport, until

WAIT_S = 60.0
WRITES = 6
"""The mark, the namespace, the queue, the binding, the role, the project: a kill before and after each."""

FIELDS = {
    "members": [{"user": "olga", "role": "Owner"}],
    "ownQueue": {"quotas": [{"resource": "gpu", "nominal": "8"}]},
}


def leftovers(admin: Person, name: str) -> list[str]:
    """What bears the label of a project, or is it, by its path."""
    collections = (NAMESPACES, QUEUES, f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings")
    found = [
        f"{path}/{one['metadata']['name']}"
        for path in collections
        for one in admin.ask("GET", f"{path}?labelSelector=gpufleet.io/project={name}")[1]["items"]
    ]
    there = admin.ask("GET", f"{PROJECTS}/{name}")[0] == 200
    return [*found, *([f"{PROJECTS}/{name}"] if there else [])]


def test_the_command_deletes_all_that_a_project_has(
    installed: LocalCluster, admin: Person, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usage, kubeconfig = tmp_path / "usage.json", str(installed.kubeconfig)

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "whole", namespaces=["whole", "whole-b"], **FIELDS)
            await until(lambda: is_ready(admin, "whole"), "made")
            assert len(leftovers(admin, "whole")) == 6
            line = ["project", "delete", "whole", "--usage", str(usage), "--kubeconfig", kubeconfig]
            assert await asyncio.to_thread(main, line) == ExitCode.DONE
            assert len(leftovers(admin, "whole")) == 6, "without a terminal and without --yes nothing ends"
            assert await asyncio.to_thread(main, [*line, "--yes"]) == ExitCode.DONE
            await asyncio.sleep(1)

    asyncio.run(story())
    assert leftovers(admin, "whole") == []
    said = capsys.readouterr()
    assert "namespace whole-b: 0 pods, 0 volume claims" in said.out
    assert "GPU-hours are not known" in said.out
    assert "nothing of it is left" in said.out
    assert "Nothing was changed; --yes does it." in said.err
    record = json.loads(usage.read_text(encoding="utf-8"))
    assert (record["namespaces"], record["usage"]) == (["whole", "whole-b"], None)


def test_killed_at_any_write_the_same_call_goes_on(installed: LocalCluster) -> None:
    async def killed_at(client: Client, at: int, *, after: bool) -> bool:
        """Whether the process ended there; without a write of that number it came to its end."""
        name = f"killed-{'after' if after else 'before'}-{at}"
        with Person(installed, "root", ("system:masters",)) as admin:
            await asyncio.to_thread(write, admin, name, namespaces=[name], **FIELDS)
            await until(lambda: is_ready(admin, name), "made")
            transport = KillingTransport(client.transport, at, after=after)
            dying = Client(transport, MachineClock(), random.Random(at))
            try:
                await end(dying, name, WAIT_S)
                is_killed = False
            except Killed:
                is_killed = True
                assert await end(client, name, WAIT_S) == ()
            assert await asyncio.to_thread(leftovers, admin, name) == []
            return is_killed

    async def story() -> None:
        choice = ClusterChoice(installed.kubeconfig)
        async with running_controller(installed), connect(choice, connections=16) as connection:
            kills = [(at, after) for after in (False, True) for at in range(1, WRITES + 2)]
            killed = await asyncio.gather(
                *(killed_at(connection.client, at, after=after) for at, after in kills)
            )
            assert killed == [at <= WRITES for at, _ in kills]

    asyncio.run(story())


def test_what_is_left_of_a_project_that_is_gone_ends_too(installed: LocalCluster, admin: Person) -> None:
    async def story() -> None:
        choice = ClusterChoice(installed.kubeconfig)
        async with running_controller(installed), connect(choice, connections=4) as connection:
            write(admin, "orphan", namespaces=["orphan"], **FIELDS)
            await until(lambda: is_ready(admin, "orphan"), "made")
            assert admin.ask("DELETE", f"{PROJECTS}/orphan")[0] == 200
            content = await content_of(connection.client, "orphan")
            assert not content.exists
            assert [one.name for one in content.namespaces] == ["orphan"]
            assert await end(connection.client, "orphan", WAIT_S) == ()

    asyncio.run(story())
    assert leftovers(admin, "orphan") == []


def test_a_namespace_of_the_clusters_own_never_ends_with_a_project(
    installed: LocalCluster, admin: Person
) -> None:
    label = {"metadata": {"labels": {"gpufleet.io/project": "wrong"}}}
    assert admin.merge(f"{NAMESPACES}/kube-public", label)[0] == 200

    async def story() -> None:
        async with connect(ClusterChoice(installed.kubeconfig), connections=4) as connection:
            with pytest.raises(InputError, match="the cluster's own"):
                await content_of(connection.client, "wrong")
            with pytest.raises(InputError, match="the cluster's own"):
                await end(connection.client, "wrong", WAIT_S)

    asyncio.run(story())
    assert admin.ask("GET", f"{NAMESPACES}/kube-public")[1]["status"]["phase"] == "Active"


def test_a_namespace_that_is_not_gone_in_time_is_named(
    installed: LocalCluster, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = str(installed.kubeconfig)

    async def story() -> None:
        async with running_controller(installed):
            write(admin, "held", namespaces=["held"], **FIELDS)
            await until(lambda: is_ready(admin, "held"), "made")
            pin = {"metadata": {"name": "pin", "finalizers": ["example.com/pin"]}}
            made(admin, f"{NAMESPACES}/held/configmaps", pin)
            line = ["project", "delete", "held", "--yes", "--wait", "1", "--kubeconfig", kubeconfig]
            assert await asyncio.to_thread(main, line) == ExitCode.WORLD_FAILED
            assert admin.ask("GET", f"{PROJECTS}/held")[0] == 200
            free: dict[str, Any] = {"metadata": {"finalizers": []}}
            assert admin.merge(f"{NAMESPACES}/held/configmaps/pin", free)[0] == 200
            line[line.index("1")] = "60"
            assert await asyncio.to_thread(main, line) == ExitCode.DONE

    asyncio.run(story())
    assert leftovers(admin, "held") == []
    assert "namespaces are still ending after 1 s: held" in capsys.readouterr().err
