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


_GANG = "its workers wait for each other at the start, and no queue, gang or scheduler places them together"
_KUBEFLOW = "kubeflow/training-operator/examples/"
_MPI = "kubeflow/mpi-operator/examples/"
_AWS = "aws-samples/awsome-distributed-training/3.test_cases/"
_NEMO = f"{_AWS}pytorch/nemo-run/kubernetes/training/nemo-training-job.yaml"
_GKE = "GoogleCloudPlatform/"
_SAMPLES = f"{_GKE}kubernetes-engine-samples/ai-ml/"

ERRORS: dict[tuple[str, str, str], str] = {
    (
        f"{_AWS}6.stable-diffusion/multi-node/3.stable-diffusion-eks.yaml",
        "GPU002",
        "PyTorchJob stable-diffusion",
    ): "its amount of nvidia.com/gpu was left empty, which the API server reads as none, for eight processes",
    (f"{_AWS}post-training/rlvr/nccl-tests.yaml", "GPU023", "MPIJob nccl-tests"): _GANG,
    (_NEMO, "GPU023", "PyTorchJob nemo-training/nemo-training"): _GANG,
    (
        f"{_SAMPLES}mix-train-and-inference/workloads/fine-tune-l4-dws.yaml",
        "GPU006",
        "Job finetune-gemma-l4",
    ): "it asks for two L4 and, being privileged, sees all that its node has; nothing it runs needs that",
    (
        "ROCm/k8s-device-plugin/example/vllm-serve/deployment.yaml",
        "GPU007",
        "Deployment default/mistral-7b",
    ): "it is given one GPU by the plugin and mounts /dev/kfd and all of /dev/dri, which are every GPU's",
    (
        f"{_MPI}v1/tensorflow-benchmarks/tensorflow-benchmarks-imagenet.yaml",
        "GPU023",
        "MPIJob tensorflow-benchmarks-imagenet",
    ): _GANG,
    (f"{_MPI}v2beta1/nccl-tests/nccl-tests.yaml", "GPU006", "MPIJob nccl-tests"): (
        "it asks for all eight GPUs, and a benchmark of NCCL over RDMA needs IPC_LOCK, not every right"
    ),
    (f"{_MPI}v2beta1/nccl-tests/nccl-tests.yaml", "GPU023", "MPIJob nccl-tests"): _GANG,
    (f"{_MPI}v2beta1/tensorflow-benchmarks.yaml", "GPU023", "MPIJob tensorflow-benchmarks"): _GANG,
    (f"{_KUBEFLOW}paddlepaddle/simple-gpu.yaml", "GPU023", "PaddleJob kubeflow/paddle-simple-gpu"): _GANG,
    (
        f"{_KUBEFLOW}pytorch/deepspeed-demo/pytorch_deepspeed_demo.yaml",
        "GPU023",
        "PyTorchJob pytorch-deepspeed-demo",
    ): _GANG,
    (
        f"{_KUBEFLOW}pytorch/mnist/v1/pytorch_job_mnist_nccl.yaml",
        "GPU023",
        "PyTorchJob pytorch-dist-mnist-nccl",
    ): _GANG,
    (
        f"{_KUBEFLOW}tensorflow/distribution_strategy/keras-API/multi_worker_tfjob.yaml",
        "GPU023",
        "TFJob multi-worker",
    ): _GANG,
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
