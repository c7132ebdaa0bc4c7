"""References of images taken apart, and which images are made for GPUs."""

import re
from dataclasses import dataclass
from functools import lru_cache

from gpufleet.lint.objects.placeholders import has_placeholder
from gpufleet.model.worked_out_once import worked_out_once


@dataclass(frozen=True)
class ImageReference:
    """A reference as it is written, without the defaults of a registry."""

    text: str
    repository: str
    tag: str
    digest: str

    @property
    def is_pinned(self) -> bool:
        """Whether it names one version: by digest, or by a tag that is not meant to move."""
        return bool(self.digest) or re.fullmatch(MOVING_TAG, self.tag) is None

    @property
    def is_left_open(self) -> bool:
        """Whether a placeholder stands for the image, such as ``<image>``, which is filled in later."""
        return has_placeholder(self.text.rpartition("/")[2])

    @property
    def is_plain_system(self) -> bool:
        """Whether it is a bare operating system, with nothing in it that computes."""
        return _PLAIN_SYSTEM.fullmatch(self.repository.rpartition("/")[2]) is not None

    @property
    def only_holds_or_tests(self) -> bool:
        """Whether it holds GPUs and does nothing, or tests each GPU by itself."""
        return _HOLDS_OR_TESTS.search(self.repository) is not None

    @worked_out_once
    def is_for_gpus(self) -> bool:
        """Whether what is inside is built to compute on a GPU."""
        return FOR_GPUS.search(self.repository) is not None or (
            FRAMEWORK.search(self.repository) is not None and GPU_TAG.search(self.tag) is not None
        )

    @worked_out_once
    def is_gpu_infrastructure(self) -> bool:
        """Whether it is a part of the GPU stack itself, which reaches devices by design."""
        return INFRASTRUCTURE.search(self.repository) is not None


MOVING_TAG = (
    r"|(latest|nightly|main|master|trunk|edge|dev|devel|develop|stable|canary|snapshot|tip|rolling|current|head)"
    r"([-_.](cuda|cu|gpu|rocm|cpu|release|runtime|openai|amd64|arm64|ubuntu|py|python)[0-9.]*)*"
    r"|[A-Za-z0-9_.-]*[-_.](latest|nightly)"
)
"""Tags that are moved to another image from time to time, an empty one among them. Read by CEL, too."""
_PLAIN_SYSTEM = re.compile(
    r"ubuntu|debian|alpine|busybox|centos|fedora|rockylinux|almalinux|amazonlinux|ubi\d*(-minimal)?"
)
_HOLDS_OR_TESTS = re.compile(
    r"(^|/)pause(-(amd64|arm64|ppc64le))?$|gpu[-_]?burn|burn[-_]?in|cuda[-_]?samples?(/|$)|vector-?add"
    r"|gpu[-_]stress|stress[-_]gpu|nvbandwidth|cuda[-_]?memtest|memtest[-_]?gpu|(^|/)rvs$|rocm-validation"
)
FOR_GPUS = re.compile(
    r"(^|/)nvidia/(cuda|pytorch|tensorflow|tritonserver|nemo|tensorrt|tensorrt-llm|rapidsai|vllm|sglang)(/|$)"
    r"|(^|/)vllm/vllm-openai$|(^|/)lmsysorg/sglang$|(^|/)tritonserver$"
    r"|(^|/)huggingface/(text-generation-inference|transformers-pytorch-gpu)$"
    r"|(^|/)rapidsai/|(^|/)rocm/(pytorch|tensorflow|vllm|dev-)|(^|/)openmpi/cuda"
)
FRAMEWORK = re.compile(r"(pytorch|tensorflow|jax|torch|ollama|llama|vllm|text-embeddings-inference|ray)")
GPU_TAG = re.compile(r"(^|[-_.])(cuda|cu1[0-9]{2}|gpu|rocm)")
INFRASTRUCTURE = re.compile(
    r"device-plugin|dcgm|gpu-operator|gpu-feature-discovery|container-toolkit|mig-manager|k8s-mig|"
    r"nvidia/driver|gpu-admin-tools|node-labeller|gpu-operator-validator|/hami|k8s-dra-driver|dra-driver|"
    r"nvidia-driver|gdrdrv|nvidia-fs|vgpu|fabricmanager|(^|/)gpufleet$|amdgpu|xpumanager|gpu-partition"
)


@lru_cache(maxsize=4096)
def read_image(text: str) -> ImageReference:
    """The parts of a reference: registry and path, tag, digest. Pods of a cluster repeat a few hundred."""
    rest, _, digest = text.partition("@")
    # A colon before the last slash is the port of the registry.
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    return ImageReference(text, head + slash + name, tag, digest)
