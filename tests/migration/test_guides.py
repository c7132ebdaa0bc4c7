"""The pages about moving in: what a command on them prints stands below it, and what they promise holds."""

import re
import shlex
from typing import Any

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.migration.command import from_files
from gpufleet.migration.sources import read_documents
from tests.conventions.project import ROOT
from tests.scheduler.world import World, in_world

PAGES = {
    "kueue": "moving-from-kueue.md",
    "kai": "moving-from-kai.md",
    "volcano": "moving-from-volcano.md",
    "elasticquota": "moving-from-scheduler-plugins.md",
}
NAMED = {
    "kueue": {"labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "kai": {"labels": {"kai.scheduler/queue": "{}"}},
    "volcano": {"annotations": {"volcano.sh/queue-name": "{}"}},
    "elasticquota": {},
}
"""How a pod of each system says its queue, besides its namespace; {} is the team's name."""


@pytest.mark.parametrize("system", PAGES)
def test_the_command_prints_what_the_page_shows(
    system: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / PAGES[system]).read_text(encoding="utf-8")
    shown = re.search(r"```console\n\$ gpufleet (.*?)\n(.*?)```.*?```yaml\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(shown[1])) == ExitCode.DONE
    said = capsys.readouterr()
    assert (said.err, said.out) == (shown[2], shown[3])


@pytest.mark.parametrize("system", PAGES)
def test_what_the_other_system_still_runs_counts_in_its_queue(system: str) -> None:
    def said(team: str) -> dict[str, Any]:
        """How a pod of a team says its queue."""
        return {
            field: {key: value.format(team) for key, value in words.items()}
            for field, words in NAMED[system].items()
        }

    async def story(world: World) -> None:
        world.node("n", gpus=24)
        for team in ("vision", "speech"):
            world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        manifests = from_files(system, [str(ROOT / "examples" / "moving" / f"{system}.yaml")]).manifests
        for document in read_documents(manifests.encode(), ""):
            world.add(document.body)
        theirs: dict[str, Any] = {"schedulerName": "another", "nodeName": "n"}
        for number in range(2):
            world.pod(f"theirs-{number}", gpus=4, namespace="vision", **theirs, **said("vision"))
        world.pod("lent", gpus=4, namespace="speech", **theirs, **said("speech"))
        await world.settle(5)
        world.pod("fits", gpus=4, namespace="speech", **said("speech"))
        world.pod("too-much", gpus=1, namespace="vision", **said("vision"))
        await world.settle(10)
        assert world.get("fits", "speech")["spec"]["nodeName"] == "n"
        waiting = world.get("too-much", "vision")
        assert "nodeName" not in waiting["spec"]
        told = [one["message"] for one in waiting["status"]["conditions"] if one["type"] == "PodScheduled"]
        # Of Volcano's 16 GPUs 2 are never lent, and so they are not the root's to count.
        assert re.search(r"waits for quota: queue \S+ uses (\d+) GPUs of the \1 GPUs, and it needs", told[0])

    in_world(story)


@pytest.mark.parametrize(("asked", "evicted"), [({}, 1), ({"preemption": {"reclaim": "Never"}}, 0)])
def test_what_the_other_system_borrows_may_be_taken_back_unless_that_is_switched_off(
    asked: dict[str, Any], evicted: int
) -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=16)
        for team in ("vision", "speech"):
            world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        found = from_files("elasticquota", [str(ROOT / "examples" / "moving" / "elasticquota.yaml")])
        for document in read_documents(found.manifests.encode(), ""):
            world.add({**document.body, "spec": {**document.body["spec"], **asked}})
        for number in range(3):
            world.pod(f"theirs-{number}", gpus=4, namespace="speech", schedulerName="another", nodeName="n")
        await world.settle(5)
        world.pod("ours", gpus=8, namespace="vision")
        await world.settle(10)
        assert len(world.evicted()) == evicted

    in_world(story)
