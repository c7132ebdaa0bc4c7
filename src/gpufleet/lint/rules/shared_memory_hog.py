"""GPU041: a server that takes all memory it finds runs on a GPU that others use too."""

from collections.abc import Iterator

from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.meanings.gpu_resources import is_shared
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.servers import serves_language_model
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# Options by which servers of models take less than all of the memory.
_BOUNDS = (
    "--gpu-memory-utilization",
    "--mem-fraction-static",
    "--cuda-memory-fraction",
    "--cache-max-entry-count",
)
# Variables that do so.
_VARIABLES = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "XLA_PYTHON_CLIENT_MEM_FRACTION", "GPU_MEMORY_UTILIZATION")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each server of language models on a shared GPU without a bound of its memory."""
    for template in manifest.templates:
        for container in template.containers:
            # Our shares are held to their memory by themselves.
            shared = [name for name in container.gpu_names if is_shared(name) and name != GPU_SHARE]
            if shared and serves_language_model(container) and not _is_bounded(container):
                says = f"container {container.name} takes most of the GPU's memory and asks for {shared[0]}"
                advice = "bound its memory (vLLM: --gpu-memory-utilization), or ask for a MIG instance"
                yield RuleFinding(container.field, says, advice)


def _is_bounded(container: Container) -> bool:
    return any(word.startswith(_BOUNDS) for line in container.words for word in line.split()) or any(
        container.variable(name) for name in _VARIABLES
    )


RULE = Rule("GPU041", "Memory without a bound on a shared GPU", Severity.WARNING, check)
