"""Among how many GPUs the command line of a server of models divides its work, over how many pods.

Each server counts in its own way: vLLM starts only its own ranks of data in a pod where it is told how many,
SGLang's ranks of data share the GPUs of its tensors where attention is divided by them, and sizes are of all
nodes together where there are several. What a line leaves open, as a variable does, is not counted at all.
"""

import re
from collections import Counter
from dataclasses import dataclass

from gpufleet.kube.meanings.model_servers import LMDEPLOY, SGLANG, TGI, TRTLLM, VLLM, server_by
from gpufleet.lint.objects.containers import Container

TENSOR, STAGES, DATA, DATA_HERE, NODES, CONTEXT = "tensor", "stages", "data", "data here", "nodes", "context"
_SHARED = {
    "tensor-parallel-size": TENSOR,
    "tp": TENSOR,
    "pipeline-parallel-size": STAGES,
    "pp": STAGES,
    "data-parallel-size": DATA,
    "dp": DATA,
    "nnodes": NODES,
}
_SPELLINGS = {
    VLLM: {
        **_SHARED,
        "data-parallel-size-local": DATA_HERE,
        "dpl": DATA_HERE,
        "prefill-context-parallel-size": CONTEXT,
        "pcp": CONTEXT,
    },
    SGLANG: {**_SHARED, "tp-size": TENSOR, "pp-size": STAGES, "dp-size": DATA},
    TGI: {"num-shard": TENSOR},
    TRTLLM: {
        "tp-size": TENSOR,
        "tensor-parallel-size": TENSOR,
        "pp-size": STAGES,
        "pipeline-parallel-size": STAGES,
    },
    LMDEPLOY: {"tp": TENSOR, "dp": DATA, "nnodes": NODES},
}
"""What each server calls a size."""

_PART_OF_GPUS = re.compile(r"(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|base-gpu-id|gpu-id-step|device-ids")
"""Words after which a process takes not all GPUs of its container."""

_OVER_OTHERS = re.compile(
    r"\bray start\b|(executor|data-parallel)-backend ray\b|\bmpirun\b|\bsrun\b|trtllm-llmapi-launch"
    r"|--extra-llm-api-options\b|--ray-(cluster-size|address)\b"
)
"""With Ray and MPI ranks may be in other pods, and TensorRT-LLM reads sizes from a file too."""


@dataclass(frozen=True)
class Parts:
    """The GPUs that a server divides its work among, together on all of its nodes."""

    gpus: int
    nodes: int


def counts_all(container: Container) -> bool:
    """Whether processes of the container see every GPU that it has, as far as the manifest says."""
    told = " ".join((*container.words, *(one.name for one in container.env)))
    return _PART_OF_GPUS.search(told.replace("_VISIBLE_DEVICES=all", "")) is None


def parts_of(container: Container) -> Parts | None:
    """How the server of a container divides its work; None where there is none or it gives no numbers."""
    line, server = _line_of(container), server_of(container)
    if server is None or _OVER_OTHERS.search(line.replace("_", "-")) or not counts_all(container):
        return None
    sizes = sizes_of(container, server)
    if sizes is None or not (sizes.keys() - {NODES}):
        return None
    if server == LMDEPLOY and DATA in sizes:
        # Its ranks of data share GPUs in ways that depend on the model.
        return None
    nodes = sizes.pop(NODES, 1)
    words = set(line.replace("_", "-").split())
    if server == VLLM:
        sizes = _of_this_pod(sizes, words)
        if sizes is None:
            return None
    elif server == SGLANG and "--enable-dp-attention" in words:
        sizes.pop(DATA, None)
    gpus = 1
    for size in sizes.values():
        gpus *= size
    return Parts(gpus, nodes)


def _line_of(container: Container) -> str:
    return " ".join(container.words).replace("=", " ")


def server_of(container: Container) -> str | None:
    """The one server of models that a container runs, by command or image; None for another program."""
    return server_by(_line_of(container), container.image.repository if container.image else "")


def sizes_of(container: Container, server: str) -> dict[str, int] | None:
    """The sizes by their meaning; None where one is said twice or not as a number."""
    words, spellings = _line_of(container).split(), _SPELLINGS[server]
    found: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for number, word in enumerate(words):
        name = re.fullmatch(r"--?([a-z][a-z_-]*)", word)
        meaning = spellings.get(name[1].replace("_", "-")) if name else None
        if meaning is None:
            continue
        value = words[number + 1] if number + 1 < len(words) else ""
        seen[meaning] += 1
        if seen[meaning] > 1 or re.fullmatch(r"[1-9][0-9]{0,5}", value) is None:
            return None
        found[meaning] = int(value)
    return found


def _of_this_pod(sizes: dict[str, int], words: set[str]) -> dict[str, int] | None:
    """The sizes of vLLM as one pod has them: of its ranks of data it starts its own alone."""
    here = sizes.pop(DATA_HERE, None)
    if here is not None:
        return {**sizes, DATA: here}
    if words & {"--data-parallel-rank", "-dpr", "--data-parallel-external-lb"}:
        # Each rank is a pod of its own.
        sizes.pop(DATA, None)
    elif words & {"--data-parallel-start-rank", "--data-parallel-hybrid-lb", "--data-parallel-address"}:
        return None
    return sizes
