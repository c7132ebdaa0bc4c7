"""GPU005: a container picks GPUs by an index that need not be that of its own, or opens others than its own.

What it finds is what gpufleet's policies warn of on a cluster.
"""

import re
from collections.abc import Iterator

from gpufleet.kube.keys import HIDING_VALUES, VISIBLE_DEVICES
from gpufleet.lint.edits.edits import Fix, removal
from gpufleet.lint.objects.containers import Container, Variable
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.rules.visible_devices_bypass import GIVEN

# Variables of CUDA, HIP, ROCm and Level Zero that choose GPUs by their number.
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
PICKS = re.compile(r"\s*(\d|GPU-|MIG-)")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each variable for visible devices with a literal index or UUID, or beside what the plugin sets."""
    for template in manifest.templates:
        if template.is_gpu_infrastructure:
            continue
        for container in template.all_containers:
            for variable in container.env:
                words = _wrong(container, variable)
                if words is not None:
                    fix = Fix(
                        f"remove {variable.name} from container {container.name}", (removal(variable.field),)
                    )
                    yield RuleFinding(variable.field, *words, fix)


def _wrong(container: Container, variable: Variable) -> tuple[str, str] | None:
    """What is wrong with a variable, and what helps."""
    sets = f"container {container.name} sets {variable.name}={variable.value}"
    if variable.name in VARIABLES and PICKS.match(variable.value or ""):
        return sets, "remove it: inside the container the GPUs that it was given are numbered from 0"
    if variable.name == VISIBLE_DEVICES and _opens_others(container, variable):
        opened = "every GPU of its node" if variable.value == "all" else f"GPU {variable.value}"
        says = f"{sets} beside its limit, which opens {opened} where devices are injected by that variable"
        return says, "remove it: the device plugin sets it to what is given, and the pod's own value wins"
    return None


def _opens_others(container: Container, variable: Variable) -> bool:
    """Whether the value wins over that of the device plugin: the kubelet puts it behind."""
    is_given = any(name.startswith(GIVEN) for name in container.gpu_names)
    return is_given and variable.value not in {None, *HIDING_VALUES}


RULE = Rule("GPU005", "Hard-coded index of a GPU", Severity.WARNING, check, fixes=True)
