"""The public manifests that lint is swept over: which they are, and what is right to say of them.

``tests/corpus/public-manifests/sources.csv`` names each by repository, path, commit and licence. The
files themselves are not kept here: who sweeps has the repositories in a folder, each at OWNER/NAME and
checked out at its commit, and names the folder in ``GPUFLEET_PUBLIC_MANIFESTS``. The tests that lint
them are in ``test_public_manifests``.

Projects publish what runs for them, so an error of a rule is first of all the rule's to explain: each
has a sentence here, or the rule is mended.
"""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from tests.conventions.project import ROOT

SETTING = "GPUFLEET_PUBLIC_MANIFESTS"
TABLE = ROOT / "tests" / "corpus" / "public-manifests" / "sources.csv"


@dataclass(frozen=True)
class Source:
    """One public file. ``characters`` is its length there, by which a wrong version shows."""

    repository: str
    path: str
    commit: str
    licence: str
    characters: int

    @property
    def name(self) -> str:
        """Its path in a folder of repositories."""
        return f"{self.repository}/{self.path}"


def sources(table: Path = TABLE) -> list[Source]:
    """Every row of the table."""
    with table.open(encoding="utf-8", newline="") as file:
        return [
            Source(row["repository"], row["path"], row["commit"], row["licence"], int(row["characters"]))
            for row in csv.DictReader(file)
        ]


def folder() -> Path | None:
    """Where the repositories are, if anywhere."""
    told = os.environ.get(SETTING)
    return Path(told) if told else None


_MPI = "kubeflow/mpi-operator/examples/"
_SAMPLES = "GoogleCloudPlatform/kubernetes-engine-samples/ai-ml/"

ERRORS: dict[tuple[str, str, str], str] = {
    (
        "ROCm/k8s-device-plugin/example/vllm-serve/deployment.yaml",
        "GPU007",
        "Deployment default/mistral-7b",
    ): "it is given one GPU by the plugin and mounts /dev/kfd and all of /dev/dri, which are every GPU's",
}
"""Why a finding of severity error is right, by file, rule and object."""

MALFORMED: dict[str, tuple[str, str]] = {
    f"{_SAMPLES}llm-serving-llama/vllm/vllm-llama4-maverick-17b-128e.yaml": (
        "a list or mapping stands where the name of a field was expected",
        "a template's {{HF_TOKEN}} without quotes is a mapping as the name of a field, which is refused",
    ),
    "kserve/kserve/docs/samples/custom/torchserve/gpu.yaml": (
        "not YAML: while parsing a block mapping",
        "{username}/torchserve-gpu without quotes begins a mapping and goes on as a text",
    ),
    f"{_MPI}v2beta1/deepspeed/deepspeed-helloworld.yaml": (
        "not YAML: while parsing a block collection",
        "the fields of its last container stand one column left of the first",
    ),
}
"""Files that are no manifests as published: the beginning of what is told of them, and why it is right."""
