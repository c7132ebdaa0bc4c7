"""GPU017: a pod without a GPU tolerates the taint that keeps such pods off GPU nodes."""

import re
from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, removal
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.template_paths import PER_NODE
from gpufleet.lint.rule import Rule, RuleFinding, Severity

GPU_TAINT = re.compile(r"(nvidia\.com|amd\.com|gpu\.intel\.com)/.*gpu.*|gpu\.intel\.com/.*|gpu")


def _without_gpu(template: PodTemplate) -> bool:
    # One that runs a GPU image has forgotten its request: GPU003 says so.
    return (
        not template.uses_gpu and not template.is_gpu_infrastructure and template.spec.at("containers").exists
    )


def _concerns(manifest: Manifest) -> bool:
    # A DaemonSet serves every node, also those with GPUs.
    return manifest.kind != PER_NODE and any(map(_without_gpu, manifest.templates))


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each toleration of a GPU taint in a pod that asks for no GPU."""
    for template in manifest.templates:
        if not _without_gpu(template):
            continue
        for toleration in template.tolerations:
            key = toleration.at("key").text or ""
            if GPU_TAINT.fullmatch(key):
                yield RuleFinding(
                    toleration,
                    f"tolerates the taint {key} and asks for no GPU",
                    "remove the toleration, so that the pod leaves GPU nodes to pods that need them",
                    Fix(f"remove the toleration of {key}", (removal(toleration),)),
                )


RULE = Rule("GPU017", "GPU toleration without a GPU", Severity.WARNING, check, concerns=_concerns, fixes=True)
