"""The catalogue that travels with gpufleet: open models and GPUs, each fact with what it rests on.

A model's entry holds the fields of its own configuration, not sizes; the published number of parameters is
there to check the arithmetic against, in the tests. A card's entry adds what fitting needs to the row of
``model.gpu_catalogue``: the memory that a program really finds, its bandwidth and its links. Each part
has its ``basis``: checked in a copy that was read, or not.
"""

import difflib
import functools
import re
from importlib import resources

import msgspec

from gpufleet.fit.basis import Basis
from gpufleet.fit.config import ModelConfig
from gpufleet.model import gpu_model
from gpufleet.model.gpu_catalogue import GpuModel
from gpufleet.model.model_errors import InputError

MIB = 1 << 20
_NOISE = re.compile(r"[^a-z0-9.]+")
# Llama 3.1 has been published with its maker in its name and without.
_MAKER = re.compile(r"(^|/)meta-(?=llama-)")
_ENDINGS = re.compile(r"(instruct|chat|it|hf)$")
_QUANTISED = re.compile(
    r"[-_.](awq|gptq|fp8|fp4|nvfp4|bnb|int4|int8|w[48]a(8|16)|gguf|quantized).*$", re.IGNORECASE
)
_FORMATS = {
    "awq": "awq",
    "gptq": "gptq",
    "fp8": "fp8",
    "fp8d": "fp8",
    "nvfp": "nvfp4",
    "fp4": "nvfp4",
    "bnb4": "nf4",
    "int4": "w4a16",
    "int8": "int8",
    "w4a1": "w4a16",
    "w8a8": "int8",
    "w8a1": "w8a16",
    "gguf": "q4_k_m",
}
"""By the beginning of what publishers append to a model's name: the format that they mean."""

_FORM_FACTOR = re.compile(r"[-_ ]*(sxm[0-9]?|oam|pcie|nvl[0-9]{2,3})$", re.IGNORECASE)
SUGGESTED_MAX = 4
"""A message with more names is not read."""


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An open model, published on ``date`` at ``hub``.

    ``parameters`` is the publisher's number without layers that only draft tokens (MTP), which an engine
    leaves out unless it is told otherwise.
    """

    name: str
    hub: str
    date: str
    parameters: int
    parameters_basis: Basis
    config: ModelConfig
    config_basis: Basis
    aliases: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Where the publisher's own configuration lies."""
        return f"https://huggingface.co/{self.hub}/blob/main/config.json"


class Mixture(msgspec.Struct, frozen=True):
    """The kinds of card that serve one model together; ``usable_mean_mib`` is over all GPUs."""

    kinds: tuple[str, ...]
    gpus: int
    usable_mean_mib: int


class CardEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a program finds on a card, which came out on ``date``; ``bandwidth_gb_s`` is its memory's.

    Cards of several kinds are one entry with the least of each, and say so in ``mixture``.
    """

    model: str
    date: str
    usable_mib: int
    usable_basis: Basis
    bandwidth_gb_s: float
    bandwidth_basis: Basis
    link: str
    link_gb_s: float
    link_basis: Basis
    gpus_per_node_max: int
    mixture: Mixture | None = None

    @property
    def gpus_max(self) -> int:
        """How many there are at all; 0 where that is not known."""
        return self.mixture.gpus if self.mixture is not None else 0

    @property
    def usable_bytes(self) -> int:
        """Memory that a program can have, in bytes."""
        return self.usable_mib * MIB

    @property
    def gpu(self) -> GpuModel:
        """The card's row in the catalogue of GPU models; of several, that for which vLLM takes on most."""
        if self.mixture is None:
            return _gpu(self.model)
        return max(map(_gpu, self.mixture.kinds), key=lambda row: (row.family != "A100", row.memory_mib or 0))

    @property
    def capability(self) -> float:
        """NVIDIA's compute capability as a number; 0 for cards of other makers."""
        rows = map(_gpu, self.mixture.kinds) if self.mixture is not None else (self.gpu,)
        targets = [row.compute_target for row in rows]
        return min(float(one) if re.fullmatch(r"[0-9]+\.[0-9]+", one) else 0.0 for one in targets)


@functools.cache
def _gpu(name: str) -> GpuModel:
    found = gpu_model.find(name)
    if found is None:
        raise InputError("the card is in no catalogue of models", where="cards.json", value=name)
    return found


@functools.cache
def models() -> tuple[ModelEntry, ...]:
    """Every model, in the catalogue's order."""
    return msgspec.json.decode(_data("models.json"), type=tuple[ModelEntry, ...])


@functools.cache
def cards() -> tuple[CardEntry, ...]:
    """Every card, in the catalogue's order."""
    return msgspec.json.decode(_data("cards.json"), type=tuple[CardEntry, ...])


@functools.cache
def ollama_names() -> dict[str, str]:
    """The names under which Ollama has models, with those of the catalogue; written down from memory."""
    return msgspec.json.decode(_data("ollama.json"), type=dict[str, str])


def _data(name: str) -> bytes:
    return (resources.files("gpufleet.fit") / "data" / name).read_bytes()


def find_model(text: str) -> ModelEntry:
    """The model of that name, alias or place on the hub; raises InputError with the nearest."""
    spellings = _spellings()
    found = spellings.get(_plain(text))
    if found is not None:
        return found
    raise InputError(
        "no such model in the catalogue",
        field="MODEL",
        value=text,
        expected=f"{_suggestion(text)}a name of `gpufleet fit --list`, the path of a config.json, safetensors"
        " index or GGUF file, or OWNER/NAME with --hub",
    )


def quantised_name(text: str) -> tuple[ModelEntry, str] | None:
    """The model that a quantised checkpoint of this name was made of, and its format; else None."""
    base = _QUANTISED.sub("", text)
    ending = re.sub(r"[^a-z0-9]|quantized", "", text[len(base) :].lower())
    found = _spellings().get(_plain(base)) or _spellings().get(_plain(base.rpartition("/")[2]))
    form = _FORMATS.get(ending[:4], "")
    return (found, form) if found is not None and form else None


def _suggestion(text: str) -> str:
    """Names that were perhaps meant, and how to say that weights are quantised; empty if nothing is near."""
    base = _QUANTISED.sub("", text)
    found = quantised_name(text)
    if found is not None:
        return f"{found[0].name} with --weights {found[1]}, or "
    plain = _plain(base.rpartition("/")[2])
    begins = [entry.name for entry in models() if plain and _plain(entry.name).startswith(plain)]
    near = begins or [
        _spellings()[one].name
        for one in difflib.get_close_matches(plain, list(_spellings()), n=6, cutoff=0.6)
    ]
    names = list(dict.fromkeys(near))[:SUGGESTED_MAX]
    return f"perhaps {', '.join(names)}, or " if names else ""


def find_cards(text: str) -> tuple[CardEntry, ...]:
    """The cards that a name may stand for: "h100-80", a label's value, or a family of several sizes."""
    without = _FORM_FACTOR.sub("", text)
    # People leave out the unit or "RTX", or write the form factor too; the first spelling that is known
    # counts.
    spellings = (text, f"{text}GB", without, f"{without}GB", f"RTX-{text}")
    models_found = next(filter(None, map(gpu_model.matching, spellings)), ())
    names = {str(model.name) for model in models_found}
    found = tuple(card for card in cards() if card.model in names)
    if found:
        return found
    if names:
        problem, expected = "too little is known about that card to fit models on it", ""
    else:
        problem, near = "no such GPU", gpu_model.nearest_name(text)
        expected = f"perhaps {near}" if near else "a name such as h100-80, a100-40 or l4"
    raise InputError(problem, field="--gpu", value=text, expected=expected)


@functools.cache
def _spellings() -> dict[str, ModelEntry]:
    found: dict[str, ModelEntry] = {}
    for entry in models():
        for text in (entry.name, entry.hub, entry.hub.partition("/")[2], *entry.aliases):
            found.setdefault(_plain(text), entry)
    by_name = {entry.name: entry for entry in models()}
    for name, model in ollama_names().items():
        found.setdefault(_plain(name), by_name[model])
    return found


def _plain(text: str) -> str:
    """The spelling without what differs between writers: case, punctuation, what it was tuned for."""
    return _ENDINGS.sub("", _NOISE.sub("", _MAKER.sub(r"\1", text.lower())))
