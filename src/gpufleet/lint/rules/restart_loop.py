"""GPU060: a program that ends runs where it is started again for ever, and its pod holds a GPU."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Rule, RuleFinding, Severity

_CONTROLLERS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet"})
"""Kinds whose pods are started again whatever they end with."""
_ENDS = re.compile(
    r"(?:(?:\S*/)?(?:ba)?sh -c )?\s*(?:\S*/)?(nvidia-smi|rocm-smi|clinfo|deviceQuery|vectorAdd)\b([^;&|\n]*)"
)
_STAYS = re.compile(r"\s(-l|-lms|--loop\S*|dmon|pmon|daemon)\b")
_SAMPLES = re.compile(r"(^|/)(cuda-vector-add|cuda-samples?|sample-cuda)$")
_SHELLS = re.compile(r"(^|/)(nvidia/cuda|pytorch/pytorch)$")
"""Images whose own command is a shell, which ends where it has no terminal."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container of a GPU whose program ends, in a pod that starts it again."""
    if manifest.kind not in {*_CONTROLLERS, "Pod"}:
        return
    for template in manifest.templates:
        if template.is_gpu_infrastructure or not _starts_again(manifest, template):
            continue
        for container in template.containers:
            ends = _what_ends(container, manifest)
            if container.has_gpu and ends is not None:
                says = (
                    f"container {container.name} {ends}, and is started again for ever: its pod holds its GPU"
                )
                says += " and waits in CrashLoopBackOff"
                yield RuleFinding(container.field, says, "make it a Job, or a Pod with restartPolicy Never")


def _starts_again(manifest: Manifest, template: PodTemplate) -> bool:
    return manifest.kind in _CONTROLLERS or template.spec.at("restartPolicy").text in {None, "Always"}


def _what_ends(container: Container, manifest: Manifest) -> str | None:
    """What the container does that ends by itself; None where it may stay."""
    line = " ".join(container.words)
    found = _ENDS.fullmatch(line.strip())
    if found is not None:
        return None if _STAYS.search(found[2]) else f"runs {found[1]}, which ends"
    if line or container.image is None:
        return None
    repository = container.image.repository
    if _SAMPLES.search(repository):
        return "runs a sample of CUDA, which ends"
    waits = container.field.at("tty").is_true or container.field.at("stdin").is_true
    is_shell = _SHELLS.search(repository) is not None or container.image.is_plain_system
    if manifest.kind in _CONTROLLERS and is_shell and not waits:
        return "runs its image's own command, a shell, which ends without a terminal"
    return None


RULE = Rule("GPU060", "Program that ends in a pod that starts it again", Severity.WARNING, check)
