"""What the documents tell a newcomer to do: `gpufleet up`, apply the examples, ask about those that wait."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli import main as cli
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.features import gang_api_version
from tests.conventions.project import ROOT
from tests.localkube.cluster import KUBERNETES, program

EXAMPLES = ROOT / "examples"
WAIT_S = 90
WAITING = {"too-many-gpus", "typo", "short-gang"}
"""Pods, by the beginning of their names, that cannot run."""

pytestmark = pytest.mark.skipif(
    gang_api_version(KUBERNETES) != "v1beta1", reason="the examples have a PodGroup of Kubernetes 1.37"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A cluster with the examples in it, as a newcomer's shell has it."""
    folder = tmp_path_factory.mktemp("newcomer")
    found = {**os.environ, "XDG_STATE_HOME": str(folder)}
    up = run([sys.executable, "-m", "gpufleet", "up", "--name=examples"], found)
    found["KUBECONFIG"] = up.strip().removeprefix("export KUBECONFIG=").strip("'")
    try:
        kubectl("apply", "-f", str(EXAMPLES), environment=found)
        yield found
    finally:
        run([sys.executable, "-m", "gpufleet", "down", "--name=examples"], found)


def run(command: list[str], environment: Mapping[str, str], code: int = 0) -> str:
    """What a command prints; it must end with this code."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout


def kubectl(*arguments: str, environment: Mapping[str, str]) -> str:
    """What kubectl prints."""
    return run([str(program("kubectl")), *arguments], environment)


def explained(*arguments: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The answer of `gpufleet explain -o json`."""
    command = [sys.executable, "-m", "gpufleet", "explain", *arguments, "--output=json"]
    found: dict[str, Any] = json.loads(run(command, environment))
    return found


def pods(environment: Mapping[str, str]) -> dict[str, str]:
    """The phase of every pod by namespace and name."""
    listed = json.loads(kubectl("get", "pods", "--all-namespaces", "--output=json", environment=environment))
    return {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["status"]["phase"]
        for one in listed["items"]
    }


def cannot_run(name: str) -> bool:
    """True for a pod of the file of those that cannot run."""
    return any(name.startswith(f"playground/{one}") for one in WAITING)


EXPECTED_RUNNING = {
    "playground/notebook": 1,
    "playground/small-model": 1,
    "team-research/evaluate": 1,
    "team-research/finetune": 1,
    "team-research/pretrain": 2,
    "team-research/train": 4,
    "team-serving/embeddings": 2,
    "team-serving/llm": 2,
}


def test_all_that_can_run_runs_and_nothing_else(environment: Mapping[str, str]) -> None:
    limit_s = time.monotonic() + WAIT_S
    while True:
        found = pods(environment)
        running = [name for name, phase in found.items() if phase == "Running"]
        counts = {part: sum(name.startswith(part) for name in running) for part in EXPECTED_RUNNING}
        if counts == EXPECTED_RUNNING:
            break
        assert time.monotonic() < limit_s, found
        time.sleep(0.5)
    waiting = sorted(name for name, phase in found.items() if phase == "Pending")
    assert len(waiting) == 4
    assert all(map(cannot_run, waiting)), waiting


@pytest.mark.parametrize(
    ("name", "namespace", "cause", "way_out"),
    [
        ("too-many-gpus", "playground", "gpu-count", "at most 8 in one pod"),
        ("typo", "playground", "selector", "NVIDIA-H100-80GB-HBM3"),
        ("short", "playground", "gang-short", "create the missing member"),
        ("deployment/short-gang", "playground", "gang-short", "create the missing member"),
        ("job/over-quota", "team-serving", "quota", "raise the ResourceQuota serving"),
    ],
)
def test_who_cannot_run_is_told_why_and_what_would_help(
    name: str, namespace: str, cause: str, way_out: str, environment: Mapping[str, str]
) -> None:
    limit_s = time.monotonic() + WAIT_S
    while True:
        answer = explained(name, f"--namespace={namespace}", environment=environment)
        if answer.get("cause") == cause or time.monotonic() > limit_s:
            break
        time.sleep(0.5)
    assert answer["cause"] == cause
    assert any(way_out in way for way in answer["way_out"]), answer["way_out"]


def test_a_share_and_a_gang_that_run_are_explained_too(environment: Mapping[str, str]) -> None:
    share = explained("small-model", "--namespace=playground", environment=environment)
    (device,) = share["placement"]["devices"]
    assert (device["kind"], device["memory_mib"]) == ("share", 20480)
    gang = explained("pretrain", "--namespace=team-research", environment=environment)
    assert [member["state"] for member in gang["gang"]["members"]] == ["runs", "runs"]


def test_who_may_read_little_hears_what_the_scheduler_wrote(
    environment: Mapping[str, str],
) -> None:
    kubectl(
        "create", "rolebinding", "reader", "--clusterrole=view", "--user=ann", "--namespace=playground",
        environment=environment,
    )  # fmt: skip
    folder = Path(environment["KUBECONFIG"]).parent
    own = {**environment, "KUBECONFIG": str(LocalCluster.at(folder).kubeconfig_for("ann"))}
    answer = explained("too-many-gpus", "--namespace=playground", environment=own)
    assert answer["cause"] == "told"
    assert "needs 16 whole GPUs" in answer["why"]
    assert "may not list" in answer["notes"][0]


def test_an_unknown_name_ends_with_the_code_of_bad_input(environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "gpufleet", "explain", "nootbook", "--namespace=playground"]
    run(command, environment, code=cli.ExitCode.BAD_INPUT)
