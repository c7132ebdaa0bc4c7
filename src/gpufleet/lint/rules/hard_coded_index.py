"""GPU005: a container picks GPUs by an index that need not be that of its own."""

import re
from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, removal
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# Variables of CUDA, HIP, ROCm and Level Zero that choose GPUs by their number.
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
PICKS = re.compile(r"\s*(\d|GPU-|MIG-)")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each variable for visible devices with a literal index or UUID."""
    for template in manifest.templates:
        if template.is_gpu_infrastructure:
            continue
        for container in template.all_containers:
            for variable in container.env:
                if variable.name in VARIABLES and PICKS.match(variable.value or ""):
                    says = f"container {container.name} sets {variable.name}={variable.value}"
                    advice = "remove it: inside the container the GPUs that it was given are numbered from 0"
                    does = f"remove {variable.name} from container {container.name}"
                    yield RuleFinding(variable.field, says, advice, Fix(does, (removal(variable.field),)))


RULE = Rule("GPU005", "Hard-coded index of a GPU", Severity.WARNING, check, fixes=True)
