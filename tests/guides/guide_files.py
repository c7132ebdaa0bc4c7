"""The files of guides as objects, and what a reader types about them."""

import contextlib
import io
import subprocess
from pathlib import Path

import msgspec

from gpufleet.cli import main as cli
from gpufleet.explain.answer import Answer
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.manifests import BETWEEN_DOCUMENTS
from tests.conventions.project import ROOT
from tests.localkube.cluster import program

FOLDER = ROOT / "examples" / "guides"
PAGE = ROOT / "docs" / "guides-walk.md"
NOT_YET = PAGE.read_text(encoding="utf-8").partition("## What is not there yet")[2]
"""The part of the page that says what guides teach and gpufleet does not do yet."""


def objects(file: str, folder: Path = FOLDER) -> list[Object]:
    """The objects of a file."""
    texts = BETWEEN_DOCUMENTS.split((folder / file).read_text(encoding="utf-8"))
    return [one for one in map(msgspec.yaml.decode, texts) if one]


def kubectl(cluster: LocalCluster, *words: str, code: int = 0, given: str = "") -> str:
    """What kubectl prints; it must end with this code."""
    done = subprocess.run(
        [str(program("kubectl")), f"--kubeconfig={cluster.kubeconfig}", *words],
        capture_output=True,
        text=True,
        check=False,
        input=given,
    )
    assert done.returncode == code, f"kubectl {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def apply(cluster: LocalCluster, *files: str, namespace: str = "default", code: int = 0) -> str:
    """What kubectl says of these files, applied together."""
    named = [word for file in files for word in ("-f", str(FOLDER / file))]
    within = ["-n", namespace] if namespace else []
    return kubectl(cluster, "apply", *within, *named, code=code)


def typed(cluster: LocalCluster, *words: str) -> bytes:
    """What one of our commands prints for programs."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main([*words, "-o", "json", f"--kubeconfig={cluster.kubeconfig}"])
    return printed.getvalue().encode()


def explained(cluster: LocalCluster, pod: str, namespace: str = "default") -> Answer:
    """What `gpufleet explain` says of a pod."""
    words = ("explain", f"pod/{pod}", "-n", namespace)
    return msgspec.json.decode(typed(cluster, *words), type=Answer)


def diagnosed(cluster: LocalCluster) -> dict[str, str]:
    """What `gpufleet doctor` found, causes and what follows from them, by the name of the check."""
    found: dict[str, str] = {}
    left = list(msgspec.json.decode(typed(cluster, "doctor", "--fail-on=never"))["causes"])
    while left:
        one = left.pop()
        found[one["check"]] = f"{found.get(one['check'], '')}{one['says']}\n"
        left += one.get("follows", [])
    return found


def pods(cluster: LocalCluster, namespace: str = "default") -> dict[str, Object]:
    """The pods of a namespace by name."""
    with cluster.api() as api:
        listed = api.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {one["metadata"]["name"]: one for one in listed}


def running(cluster: LocalCluster, beginning: str, node: str, namespace: str = "default") -> list[str]:
    """The pods of such a name that run, or have run to their end, on nodes of such a name."""
    return [
        name
        for name, one in pods(cluster, namespace).items()
        if name.startswith(beginning) and one["spec"].get("nodeName", "").startswith(node)
        if one["status"]["phase"] in {"Running", "Succeeded"} and one["spec"].get("nodeName")
    ]


def condition(one: Object) -> tuple[str, str]:
    """The reason and the words of a pod that is not scheduled."""
    conditions = one["status"].get("conditions", [])
    found = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")
