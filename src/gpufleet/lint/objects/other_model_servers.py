"""What the command line of a server of language models other than vLLM says: which model, over how many GPUs.

SGLang, TensorRT-LLM and Text Generation Inference are read. How they spend memory beside the weights is not
known here, so only weights that are too large alone are a finding. Triton has its models in a repository, of
which ``triton_repository`` reads what is in a ConfigMap.
"""

import re
from dataclasses import dataclass

from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.fit.question import Model, Serving
from gpufleet.kube.meanings.model_servers import SGLANG, TGI, TRTLLM
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.server_parts import NODES, STAGES, TENSOR, server_of, sizes_of
from gpufleet.lint.objects.vllm_command import options_of
from gpufleet.model.model_errors import InputError


@dataclass(frozen=True)
class _Server:
    """A server's own names of options. Those of ``formats`` may tell another format than that of the model's
    files, and those of ``unknown`` change what is held on a GPU.
    """

    title: str
    model: tuple[str, ...]
    formats: tuple[str, ...]
    unknown: frozenset[str]


_SERVERS = {
    SGLANG: _Server(
        "SGLang",
        ("model-path", "model"),
        ("quantization", "torchao-config", "dtype"),
        frozenset({"cpu-offload-gb", "load-format", "ep", "ep-size", "expert-parallel-size"}),
    ),
    TRTLLM: _Server(
        "TensorRT-LLM",
        ("model",),
        (),
        frozenset({"extra-llm-api-options", "config", "ep-size", "moe-expert-parallel-size"}),
    ),
    TGI: _Server(
        "Text Generation Inference", ("model-id",), ("quantize", "dtype"), frozenset({"lora-adapters"})
    ),
}
_VARIABLES = {"model-id": "MODEL_ID", "num-shard": "NUM_SHARD", "quantize": "QUANTIZE", "dtype": "DTYPE"}
"""Text Generation Inference takes each option from the environment too."""


TRITON = "Triton"


@dataclass(frozen=True)
class OtherServed:
    """A server by its name, with model and division; None where they are not known."""

    title: str
    model: Model | None
    serving: Serving | None


def other_served(container: Container) -> OtherServed | None:
    """What a container serves with one of these, or with Triton; None for anything else."""
    image = container.image.repository if container.image else ""
    words = " ".join(container.words).split()
    if "tritonserver" in (*words, *re.split("[/:]", image)):
        return OtherServed(TRITON, None, None)
    name = server_of(container)
    if name not in _SERVERS:
        return None
    server, options, sizes = _SERVERS[name], options_of(words), sizes_of(container, name)
    if name == TGI:
        variables = _environment(container)
        options = {**variables, **options}
        # All GPUs that it sees, unless it is told how many.
        tensor = variables.get("num-shard", str(container.device_count))
    else:
        tensor = "1"
        if name == TRTLLM:
            options = {"model": _after_command(words), **options}
    model = _first(options, server.model)
    told = _first(options, server.formats)
    is_known = model and told in ("", "auto") and server.unknown.isdisjoint(options)
    if not is_known or sizes is None or NODES in sizes:
        return OtherServed(server.title, None, None)
    try:
        found = catalogue_model(model)
        parallel, stages = sizes.get(TENSOR) or int(tensor), sizes.get(STAGES, 1)
        divided = Options("", tensor_parallel=parallel, stages=stages)
        return OtherServed(server.title, found, serving_of(divided, found))
    except (InputError, ValueError):
        return OtherServed(server.title, None, None)


def _first(options: dict[str, str], names: tuple[str, ...]) -> str:
    return next((options[name] for name in names if options.get(name)), "")


def _after_command(words: list[str]) -> str:
    """The model of ``trtllm-serve [serve] MODEL``; empty where an option comes first."""
    place = next((number for number, word in enumerate(words) if word.endswith("trtllm-serve")), len(words))
    after = [word for word in words[place + 1 : place + 3] if word != "serve"]
    return after[0] if after and not after[0].startswith("-") else ""


def _environment(container: Container) -> dict[str, str]:
    found = {option: container.variable(name) for option, name in _VARIABLES.items()}
    return {option: one.value for option, one in found.items() if one is not None and one.value}
