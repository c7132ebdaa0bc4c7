"""What the command line of a vLLM server says: which model, divided how, with which limits.

Only models of the catalogue are known here; lint reads neither the hub nor files of this machine.
"""

import re
from dataclasses import dataclass

from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.fit.question import Model, Serving
from gpufleet.lint.objects.containers import Container
from gpufleet.model.model_errors import InputError

MODEL_NEEDED = (
    "a model of the catalogue (gpufleet fit --list) by its name there or on the hub, and options that its"
    " arithmetic covers"
)
# Short options of vLLM.
_SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-q": "quantization"}
# As vLLM reads sizes: small letters are decimal, large ones binary.
_SIZES = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}
# The format of weights by vLLM's names of types and of quantizations.
_WEIGHTS = {
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "float32": "fp32",
    "auto": "",
    "fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
}
_AS_IN_THE_FILES = frozenset({"compressed-tensors", "modelopt", "modelopt_fp4", "mxfp4"})
"""Quantizations that read everything else from the files."""

_CHANGES_MEMORY = frozenset(
    {
        "cpu-offload-gb",
        "enable-lora",
        "hf-overrides",
        "kv-cache-memory-bytes",
        "load-format",
        "num-gpu-blocks-override",
        "rope-scaling",
        "speculative-config",
    }
)
"""Options after which the arithmetic of ``gpufleet.fit`` is of another server than this one."""


@dataclass(frozen=True)
class Served:
    """A server's model and how it is to be served; None for what is not known."""

    options: dict[str, str]
    model: Model | None
    serving: Serving | None

    @property
    def tensor_parallel(self) -> int:
        """Among how many GPUs each layer is divided."""
        return _number(self.options.get("tensor-parallel-size", "1")) or 1


def served(container: Container) -> Served | None:
    """What a container serves with vLLM; None for what is no such server."""
    words = " ".join(container.words).split()
    image = container.image.repository if container.image else ""
    if "vllm" not in image and not any(word == "vllm" or word.startswith("vllm.") for word in words):
        return None
    options = options_of(words)
    name = options.get("model") or _positional(words)
    model = _model(name) if name else None
    return Served(options, model, _serving(options, model, container) if model else None)


def options_of(words: list[str]) -> dict[str, str]:
    """The options of a command line by their long names, with "" for one without a value."""
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        after = words[number + 1] if number + 1 < len(words) else ""
        key = _SHORT.get(name) or name.removeprefix("--").replace("_", "-")
        found[key] = value if equals else ("" if after.startswith("--") else after)
    return found


def _positional(words: list[str]) -> str:
    if "serve" in words:
        after = words[words.index("serve") + 1 :]
        return after[0] if after and not after[0].startswith("-") else ""
    # The image's own command is `vllm serve`.
    return words[0] if words and not words[0].startswith("-") and "vllm" not in words[0] else ""


def _model(name: str) -> Model | None:
    try:
        return catalogue_model(name)
    except InputError:
        return None


def _serving(options: dict[str, str], model: Model, container: Container) -> Serving | None:
    weights = _weights(options, model)
    context = _number(options.get("max-model-len", "0"))
    if weights is None or context is None or not _CHANGES_MEMORY.isdisjoint(options):
        return None
    try:
        words = Options(
            "",
            # Unless told otherwise vLLM makes room for the longest context that the model has.
            context=context or model.facts.context_max,
            weights=weights,
            kv=options.get("kv-cache-dtype", "auto"),
            tensor_parallel=int(options.get("tensor-parallel-size", "1")),
            stages=int(options.get("pipeline-parallel-size", "1")),
            engine=_engine(container.image.tag if container.image else ""),
            utilisation=float(options.get("gpu-memory-utilization", "0")),
            sequences_max=_number(options.get("max-num-seqs", "0")) or 0,
            batched_tokens=_number(options.get("max-num-batched-tokens", "0")) or 0,
        )
        return serving_of(words, model)
    except (InputError, ValueError):
        return None


def _weights(options: dict[str, str], model: Model) -> str | None:
    """The format of weights; empty where it is that of the files, None where it is not known.

    The type that a command line asks for is that of the computation where the files are quantised.
    """
    method = options.get("quantization", "")
    if model.facts.native.linear_bits < 16 or model.facts.native.expert_bits is not None:
        return "" if not method or method in _AS_IN_THE_FILES else _WEIGHTS.get(method)
    return _WEIGHTS.get(method or options.get("dtype", "auto"))


def _engine(tag: str) -> str:
    found = re.match(r"v?0\.([0-9]{1,3})(?![0-9])", tag)
    minor = int(found[1]) if found else None
    if minor is None or 16 < minor < 21:
        return "vllm"
    if minor >= 21:
        return "vllm-0.21"
    return "vllm-0.16" if minor > 10 else "vllm-0.10"


def _number(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,9})([kKmM]?)", text)
    return int(found[1]) * _SIZES[found[2]] if found else None
