"""The commands of docs/projects.md, typed in their order: by an administrator, and by the owner between."""

import asyncio
import shlex

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.localkube.cluster import LocalCluster
from tests.conventions.pages import steps
from tests.conventions.project import ROOT
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import NAMESPACES, PROJECTS, is_ready, running_controller
from tests.operator.real_server import until

PAGE = ROOT / "docs" / "projects.md"
OF_ADMINISTRATORS = ("create", "list", "delete")


def test_the_page_makes_a_project_its_owner_runs_it_and_it_ends(
    installed: LocalCluster, admin: Person, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    lines = [shlex.split(command)[1:] for command, _ in steps(PAGE)]
    assert [line[1] for line in lines][0::8] == ["create", "delete"]
    owner = installed.kubeconfig_for("olga@example.com", ())

    async def typed(line: list[str]) -> None:
        kubeconfig = installed.kubeconfig if line[1] in OF_ADMINISTRATORS else owner
        # Where a person is asked, the test agrees.
        agrees = ["--yes"] if line[1] == "delete" or "--remove" in line else []
        whole = [*line, *agrees, "--kubeconfig", str(kubeconfig)]
        assert await asyncio.to_thread(main, whole) == ExitCode.DONE, whole

    async def story() -> None:
        async with running_controller(installed):
            for line in lines:
                await typed(line)
                if line[1] != "delete":
                    await until(lambda: is_ready(admin), f"at rest after {line}")

    asyncio.run(story())
    assert admin.ask("GET", f"{PROJECTS}/vision")[0] == 404
    for name in ("vision", "vision-test"):
        assert admin.ask("GET", f"{NAMESPACES}/{name}")[0] == 404
