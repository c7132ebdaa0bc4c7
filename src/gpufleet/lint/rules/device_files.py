"""GPU007: device files of GPUs are mounted from the node, past plugin and scheduler."""

import re
from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, removals
from gpufleet.lint.objects.containers import Container, Mount
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_workload_pods
from gpufleet.lint.objects.pods import PodTemplate, Volume
from gpufleet.lint.objects.template_paths import PER_NODE
from gpufleet.lint.rule import Rule, RuleFinding, Severity

DEVICE = re.compile(r"/dev/?|/dev/(nvidia[^/]*|dri|kfd)(/.*)?")
"""Files of GPUs, and some that are named like them."""

# A pattern of its own: the API server's policies are made of these, and CEL has no look-ahead.
CHANNELS = re.compile(r"/dev/nvidia-caps-imex-channels(/.*)?")
"""Channels of IMEX, over which nodes share memory, are no files of GPUs: their resource is another."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each volume that is such a file, or the folder of all, in a pod that uses GPUs."""
    for template in manifest.templates:
        if template.is_gpu_infrastructure:
            continue
        for volume in template.volumes:
            path = volume.host_path or ""
            is_all = path.rstrip("/") == "/dev"
            is_device = DEVICE.fullmatch(path) and not CHANNELS.fullmatch(path)
            mounts = _mounts(template, volume)
            if is_device and (not is_all or template.uses_gpu):
                advice = "ask for the resource in limits; its plugin brings the files and counts the device"
                yield RuleFinding(
                    volume.field,
                    f"volume {volume.name} mounts {path} of the node",
                    advice,
                    _fix(template, volume, mounts),
                    # What runs on every node may be a part of a stack that hands out devices itself.
                    Severity.WARNING if manifest.kind == PER_NODE or not mounts else None,
                )


def _mounts(template: PodTemplate, volume: Volume) -> list[tuple[Container, Mount]]:
    return [
        (one, mount) for one in template.all_containers for mount in one.mounts if mount.volume == volume.name
    ]


def _fix(template: PodTemplate, volume: Volume, mounts: list[tuple[Container, Mount]]) -> Fix | None:
    # Without a request the pod would be left without any GPU, and how many it needs is not written.
    if any(not container.has_gpu for container, _ in mounts) or not template.asks_for_gpu:
        return None
    edits = removals([volume.field, *(mount.field for _, mount in mounts)])
    return Fix(f"remove the volume {volume.name} and its mounts", edits)


RULE = Rule(
    "GPU007",
    "Device files of GPUs by hostPath",
    Severity.ERROR,
    check,
    concerns=has_workload_pods,
    fixes=True,
)
