"""GPU025: the number of processes or of parts of a model is not the number of GPUs."""

import itertools
import re
from collections.abc import Iterator

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.wide_models import SPANS_PODS
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# How launchers spell the number of processes of one pod.
_PER_NODE = ("nproc_per_node", "nproc-per-node", "num_processes_per_node")
# How servers spell the sizes by which a model is divided; their product is the number of GPUs.
_PARTS = (
    ("tensor-parallel-size", "tensor_parallel_size", "tp", "tp-size", "num-shard"),
    ("pipeline-parallel-size", "pipeline_parallel_size", "pp", "pp-size"),
    ("data-parallel-size", "data_parallel_size", "dp", "dp-size"),
)
_SHORT = {"-tp": "tp", "-pp": "pp", "-dp": "dp"}
_SERVER = re.compile(r"vllm|sglang|text-generation-inference|lmdeploy")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container with arguments that count otherwise than its limits."""
    # Parts of a model that spans pods are counted over the group; the arguments then speak of all of it.
    spans_pods = manifest.kind in SPANS_PODS
    for template in manifest.templates:
        for container in template.containers:
            count = container.device_count
            if not count:
                continue
            options = _options(container)
            field = container.field.at("args" if container.field.at("args").exists else "command")
            processes = next((options[name] for name in _PER_NODE if name in options), None)
            if processes is not None and processes != count:
                started = "1 process" if processes == 1 else f"{processes} processes"
                says = f"container {container.name} starts {started} and has {_gpus(count)}"
                yield RuleFinding(
                    field, says, "start one process for each GPU (torchrun counts them with gpu)"
                )
            parts = _parts(options) if _is_server(container) and not spans_pods else None
            if parts is not None and parts != count:
                says = f"container {container.name} divides its model among {_gpus(parts)} and has {count}"
                yield RuleFinding(
                    field, says, "make the product of the parallel sizes the number of GPUs in limits"
                )


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _is_server(container: Container) -> bool:
    image = container.image.repository if container.image else ""
    return _SERVER.search(image) is not None


def _parts(options: dict[str, int]) -> int | None:
    sizes = [next((options[name] for name in names if name in options), None) for names in _PARTS]
    if all(size is None for size in sizes):
        return None
    product = 1
    for size in sizes:
        product *= 1 if size is None else size
    return product


def _options(container: Container) -> dict[str, int]:
    """Options with a whole number, whether given as one word or two, or within a line of shell."""
    words = " ".join(container.words).replace("=", " ").split()
    found = {}
    for word, value in itertools.pairwise(words):
        name = _SHORT.get(word) or (word[2:] if word.startswith("--") else None)
        if name is not None and re.fullmatch(r"[0-9]{1,6}", value):
            found[name] = int(value)
    return found


RULE = Rule("GPU025", "As many processes as GPUs", Severity.ERROR, check)
