"""The pods that lint is tried on: its pages, the project's examples, published manifests, and varied pods.

Published manifests are there where ``GPUFLEET_PUBLIC_MANIFESTS`` names their folder, as for the tests of
lint.
"""

import random
import re
from collections.abc import Iterator
from typing import Any

from gpufleet.lint.rules import all_rules, page
from gpufleet.lint.run import read
from gpufleet.lint.source.nodes import Mapping, data_of
from gpufleet.lint.source.text import SourceText
from tests.conventions.project import ROOT
from tests.lint.public_manifests import folder, sources

Object = dict[str, Any]
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
VARIED = 400
"""Enough that each part of a pod meets each other one several times."""


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the corpus, by name."""
    for rule in all_rules():
        for number, block in enumerate(_BLOCK.findall(page(rule.id))):
            yield f"{rule.id} {number}", block
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(_BLOCK.findall(path.read_text(encoding="utf-8"))):
            yield f"{path.name} {number}", block
    published = folder()
    if published is not None:
        for source in sources():
            yield source.name, (published / source.name).read_text(encoding="utf-8")


def objects() -> Iterator[tuple[str, Object, list[Object]]]:
    """Every object with pods: its name, itself, and its pod templates."""
    for name, text in texts():
        for one in read(SourceText(name, text)).manifests:
            templates = [
                {"metadata": _plain(template.metadata.node), "spec": _plain(template.spec.node)}
                for template in one.templates
            ]
            if templates:
                yield f"{name}: {one.title}", _plain(one.root.node), templates


def _plain(node: Any) -> Object:
    """The values of a mapping, without its name: a template's is not its own."""
    found = data_of(node) if isinstance(node, Mapping) else {}
    assert isinstance(found, dict)
    return found


_AMOUNTS: list[Any] = [1, 2, "1", "0", "0.5", "1500m", 0, 8, "-1", "two", "<gpus>", "$(GPUS)"]
_NAMES = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "amd.com/gpu",
    "gpufleet.io/gpu-share",
    "nvidia.com/gpumem",
    "alpha.kubernetes.io/nvidia-gpu",
    "nvidia.com/gpus",
    "cpu",
]
_IMAGES = [
    "example.com/train",
    "example.com/train:latest",
    "example.com:5000/train",
    "nvidia/cuda:12.4.1-base-ubuntu22.04",
    "nvcr.io/nvidia/pytorch@sha256:" + "a" * 64,
    "vllm/vllm-openai",
    "pytorch/pytorch:2.3-cuda12",
    "pytorch/pytorch:2.3-cpu",
    "nvcr.io/nvidia/k8s-device-plugin:v0.17.0",
    "<image>",
    "a/b:nightly-cu12.8",
    "a/b:main-3f2a91c",
    "registry/$(IMAGE)",
    "",
]
_ENV: list[Object] = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "AMD_VISIBLE_DEVICES", "value": "0"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": " 0,1"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-1"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": "none"},
    {"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/run/mps"},
    {"name": "HF_TOKEN"},
]
_VOLUMES: list[Object] = [
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
    {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    {"name": "memory", "emptyDir": {}},
    {"name": "device", "hostPath": {"path": "/dev/nvidia0"}},
    {"name": "device", "hostPath": {"path": "/dev/"}},
    {"name": "device", "hostPath": {"path": "/dev/dri/card0"}},
    {"name": "device", "hostPath": {"path": "/dev/fuse"}},
    {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
]


def varied() -> Iterator[list[Object]]:
    """Pods put together at random, the same each time: one or two for each object."""
    chance = random.Random(20)
    for _ in range(VARIED):
        yield [_template(chance) for _ in range(chance.choice((1, 1, 2)))]


def _some(chance: random.Random, of: list[Any], most: int) -> list[Any]:
    return chance.sample(of, chance.randrange(most + 1))


def _template(chance: random.Random) -> Object:
    spec: Object = {"containers": [_container(chance, number) for number in range(chance.randrange(1, 4))]}
    if chance.random() < 0.3:
        spec["initContainers"] = [_container(chance, 9)]
        if chance.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    for name in ("hostPID", "hostIPC"):
        if chance.random() < 0.2:
            spec[name] = chance.choice((True, False))
    if volumes := _some(chance, _VOLUMES, 2):
        spec["volumes"] = volumes
    if chance.random() < 0.3:
        keys = ["nvidia.com/gpu", "gpu", "gpu.intel.com/i915", "example.com/gpu", "sku"]
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in _some(chance, keys, 2)]
    if chance.random() < 0.3:
        labels = ["beta.kubernetes.io/arch", "accelerator", "kubernetes.io/arch"]
        spec["nodeSelector"] = dict.fromkeys(_some(chance, labels, 2), chance.choice(("nvidia", "amd64")))
    if chance.random() < 0.2:
        expression = {"key": chance.choice(("beta.kubernetes.io/os", "disk")), "operator": "Exists"}
        term = {"matchExpressions": [expression]}
        part, value = chance.choice(
            (
                ("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [term]}),
                ("preferredDuringSchedulingIgnoredDuringExecution", [{"weight": 1, "preference": term}]),
            )
        )
        spec["affinity"] = {"nodeAffinity": {part: value}}
    if chance.random() < 0.15:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    metadata: Object = {}
    if chance.random() < 0.3:
        keys = ["gpufleet.io/gpu-fraction", "gpu-memory", "karpenter.sh/do-not-evict"]
        metadata["annotations"] = dict.fromkeys(_some(chance, keys, 2), "0.5")
    if chance.random() < 0.2:
        keys = ["gpufleet.io/gpu-memory", "gpu-fraction"]
        metadata["labels"] = dict.fromkeys(_some(chance, keys, 1), "1Gi")
    return {"metadata": metadata, "spec": spec}


def _container(chance: random.Random, number: int) -> Object:
    found: Object = {"name": f"c{number}", "image": chance.choice(_IMAGES)}
    resources: Object = {}
    for part in ("limits", "requests"):
        if chance.random() < 0.6:
            resources[part] = {name: chance.choice(_AMOUNTS) for name in _some(chance, _NAMES, 2)}
    if chance.random() < 0.3:
        resources.setdefault("limits", {})["memory"] = chance.choice(("1Gi", "32Gi", "lots"))
    if chance.random() < 0.1:
        resources["claims"] = [{"name": "gpu"}]
    if resources:
        found["resources"] = resources
    if env := _some(chance, _ENV, 2):
        found["env"] = env
    if chance.random() < 0.3:
        found["securityContext"] = {"privileged": chance.choice((True, False))}
    if chance.random() < 0.4:
        found["volumeMounts"] = [{"name": "memory", "mountPath": "/dev/shm"}]  # noqa: S108
    return found
