"""``gpufleet project`` on a real API server, typed by an administrator and by an owner."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import Person
from tests.operator.projects.real_projects import NAMESPACES, PROJECTS, is_ready, running_controller, write
from tests.operator.real_server import until

Typed = Callable[..., str]


@pytest.fixture
def typed(installed: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a line of ``gpufleet project`` as somebody; what is said."""

    def run(line: str, kubeconfig: Path | None = None, code: ExitCode = ExitCode.DONE) -> str:
        whole = ["project", *line.split(), "--kubeconfig", str(kubeconfig or installed.kubeconfig)]
        ended = main(whole)
        said = capsys.readouterr()
        assert ended == code, said
        return said.out + said.err

    return run


def test_an_administrator_makes_a_project_and_an_owner_runs_it(
    installed: LocalCluster, admin: Person, typed: Typed
) -> None:
    owner = installed.kubeconfig_for("olga", ())

    async def story() -> None:
        async with running_controller(installed):
            line = "create lab --owner olga --namespaces-max 3 --gpus 4 --quota requests.nvidia.com/gpu=2"
            said = await asyncio.to_thread(
                typed, f"{line} --quota limits.memory=1Ti", None, ExitCode.BAD_INPUT
            )
            assert "containerDefaults" in said
            assert "is made" in await asyncio.to_thread(typed, line)
            await until(lambda: is_ready(admin, "lab"), "made")
            assert "User bob is now Member" in await asyncio.to_thread(typed, "invite lab --user bob", owner)
            assert "is already Member" in await asyncio.to_thread(typed, "invite lab --user bob", owner)
            refused = await asyncio.to_thread(
                typed, "invite lab --user eve --role Owner", owner, ExitCode.WORLD_FAILED
            )
            assert "owners of a project are named by an administrator" in refused
            await asyncio.to_thread(typed, "namespace lab lab-test", owner)
            await until(lambda: is_ready(admin, "lab"), "the namespace is made")
            assert "no member" in await asyncio.to_thread(typed, "remove lab --user bob", owner)
            said = await asyncio.to_thread(typed, "remove lab --user bob", owner, ExitCode.BAD_INPUT)
            assert "olga" in said
            refused = await asyncio.to_thread(
                typed, "namespace lab lab --remove --yes", owner, ExitCode.WORLD_FAILED
            )
            assert "lab-" in refused
            assert admin.ask("GET", f"{NAMESPACES}/lab")[1]["status"]["phase"] == "Active"
            await asyncio.to_thread(typed, "namespace lab lab-test --remove --yes", owner)
            await until(lambda: admin.ask("GET", f"{NAMESPACES}/lab-test")[0] == 404, "gone")
            await until(lambda: is_ready(admin, "lab"), "at rest")
            quota = f"{NAMESPACES}/lab/resourcequotas/gpufleet-project"
            await until(lambda: bool(admin.ask("GET", quota)[1].get("status", {}).get("used")), "counted")

    asyncio.run(story())
    spec = admin.ask("GET", f"{PROJECTS}/lab")[1]["spec"]
    assert spec["members"] == [{"user": "olga", "role": "Owner"}]
    assert spec["namespaces"] == ["lab"]
    told = json.loads(typed("show lab -o json", owner))
    assert (told["ready"], told["queue"], told["namespacesMax"]) == (True, "lab", 3)
    text = typed("show lab", owner)
    assert "Owner  olga" in text
    assert "lab  requests.nvidia.com/gpu  0 of 2" in text


def test_who_may_list_no_projects_is_told_those_that_they_own(
    installed: LocalCluster, admin: Person, typed: Typed
) -> None:
    async def story() -> None:
        async with running_controller(installed):
            write(admin, "mine", namespaces=["mine"], members=[{"group": "chemists", "role": "Owner"}])
            write(admin, "notmine", namespaces=["notmine"])
            await until(lambda: is_ready(admin, "mine") and is_ready(admin, "notmine"), "made")

    asyncio.run(story())
    owner = installed.kubeconfig_for("zoe", ("chemists",))
    found = json.loads(typed("list -o json", owner))
    assert [one["name"] for one in found["projects"]] == ["mine"]
    assert "only projects that you own" in found["notes"][0]
    every = {one["name"] for one in json.loads(typed("list -o json"))["projects"]}
    assert {"mine", "notmine"} <= every
    assert "There is no project." in typed("list", installed.kubeconfig_for("stranger", ()))


def test_a_project_that_is_not_there_is_said_to_be_none(typed: Typed) -> None:
    assert "no such project" in typed("show absent", code=ExitCode.BAD_INPUT)
    assert "no such project" in typed("invite absent --user ann", code=ExitCode.BAD_INPUT)
    assert "nothing is there" in typed("delete absent --yes", code=ExitCode.BAD_INPUT)
