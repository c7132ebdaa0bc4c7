"""What the command line of a server of language models other than vLLM says: which model, over how many GPUs.

SGLang and Text Generation Inference are read. How they spend memory beside the weights is not known here, so
only weights that are too large alone are a finding. Triton keeps models in a repository that no manifest has.
"""

import re
from dataclasses import dataclass

from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.fit.question import Model, Serving
from gpufleet.lint.objects.containers import Container
from gpufleet.model.model_errors import InputError


@dataclass(frozen=True)
class _Server:
    """How a server is known, and its own names of options: of the model, of GPUs for a layer, of stages.

    ``quantization`` is the option whose value tells another format than that of the model's files. Options
    of ``unknown`` change what is held on a GPU.
    """

    title: str
    known_by: str
    model: tuple[str, ...]
    parallel: tuple[str, ...]
    stages: tuple[str, ...]
    quantization: tuple[str, ...]
    unknown: frozenset[str]


_SERVERS = (
    _Server(
        "SGLang",
        "sglang",
        ("model-path", "model"),
        ("tp", "tp-size", "tensor-parallel-size"),
        ("pp", "pp-size", "pipeline-parallel-size"),
        ("quantization", "torchao-config", "dtype"),
        frozenset({"cpu-offload-gb", "load-format", "nnodes", "ep", "ep-size", "expert-parallel-size"}),
    ),
    _Server(
        "Text Generation Inference",
        "text-generation-inference",
        ("model-id",),
        ("num-shard",),
        (),
        ("quantize", "dtype"),
        frozenset({"lora-adapters"}),
    ),
)
_VARIABLES = {"model-id": "MODEL_ID", "num-shard": "NUM_SHARD", "quantize": "QUANTIZE", "dtype": "DTYPE"}
"""Text Generation Inference takes each option from the environment too."""


@dataclass(frozen=True)
class OtherServed:
    """A server by its name, with model and division; None where they are not known."""

    title: str
    model: Model | None
    serving: Serving | None


def other_served(container: Container) -> OtherServed | None:
    """What a container serves with SGLang, Text Generation Inference or Triton; None for anything else."""
    image = container.image.repository if container.image else ""
    words = " ".join(container.words).split()
    if "tritonserver" in (*words, *re.split("[/:]", image)):
        return OtherServed("Triton", None, None)
    for server in _SERVERS:
        if server.known_by in image or any(word.startswith(f"{server.known_by}.") for word in words):
            options = _options(words) | _environment(container, server)
            return _read(server, options, container)
    return None


def _read(server: _Server, options: dict[str, str], container: Container) -> OtherServed:
    name = _first(options, server.model)
    told = _first(options, server.quantization)
    parallel = _first(options, server.parallel) or _all_gpus(server, container)
    stages = _first(options, server.stages) or "1"
    if not name or told not in ("", "auto") or not server.unknown.isdisjoint(options):
        return OtherServed(server.title, None, None)
    try:
        model = catalogue_model(name)
        divided = Options("", tensor_parallel=int(parallel), stages=int(stages))
        return OtherServed(server.title, model, serving_of(divided, model))
    except (InputError, ValueError):
        return OtherServed(server.title, None, None)


def _all_gpus(server: _Server, container: Container) -> str:
    """Text Generation Inference uses all GPUs that it sees, SGLang one."""
    return "1" if server.stages else str(container.device_count)


def _first(options: dict[str, str], names: tuple[str, ...]) -> str:
    return next((options[name] for name in names if options.get(name)), "")


def _environment(container: Container, server: _Server) -> dict[str, str]:
    if server.known_by != "text-generation-inference":
        return {}
    found = {option: container.variable(name) for option, name in _VARIABLES.items()}
    return {option: one.value for option, one in found.items() if one is not None and one.value}


def _options(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            after = words[number + 1] if number + 1 < len(words) else ""
            found[name.removeprefix("--").replace("_", "-")] = value if equals else after
    return found
