"""Models that servers divide among GPUs of several pods: how wide, and where that is written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.vllm_command import served
from gpufleet.lint.source.fields import Field

# Kinds whose pods serve one model together.
SPANS_PODS = frozenset({"LeaderWorkerSet", "RayCluster", "RayJob", "RayService", "LLMInferenceService"})
_IN_TEXT = re.compile(r"tensor[-_]parallel[-_]size['\"]?\s*[=:\s]\s*['\"]?([0-9]{1,5})\b")
_TEXTS = {"RayService": "serveConfigV2", "RayJob": "entrypoint"}
"""Where Ray is told what to serve, in a text of its own."""


@dataclass(frozen=True)
class Width:
    """Among how many GPUs each layer is divided, and where that stands."""

    field: Field
    gpus: int


def widths(manifest: Manifest) -> Iterator[Width]:
    """Every width in an object with pods that serve a model together."""
    if manifest.kind not in SPANS_PODS:
        return
    for template in manifest.templates:
        for container in template.containers:
            found = served(container)
            if found is not None and found.tensor_parallel > 1:
                part = "args" if container.field.at("args").exists else "command"
                yield Width(container.field.at(part), found.tensor_parallel)
    stated = manifest.root.at("spec", "parallelism", "tensor")
    if manifest.kind == "LLMInferenceService" and stated.integer is not None:
        yield Width(stated, stated.integer)
    if manifest.kind in _TEXTS:
        text = manifest.root.at("spec", _TEXTS[manifest.kind])
        sizes = [int(one) for one in _IN_TEXT.findall(text.text or "")]
        if sizes:
            yield Width(text, max(sizes))


def widest_pod(manifest: Manifest) -> int:
    """The most GPUs that one of its pods has."""
    return max((one.device_count for one in manifest.templates), default=0)
