"""The head of a GGUF file: its metadata gives the shapes, its list of tensors the exact size.

The format is at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: little-endian, counts first, then
key-value pairs, then a name, dimensions and a type for each tensor. Versions 2 and 3 are read.
"""

import io
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.advise.fit.parts import all_parts
from gpufleet.files.regular import open_regular
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.config import ModelConfig
from gpufleet.fit.facts import LatentAttention, ModelFacts, Origin
from gpufleet.fit.formats import FORMATS
from gpufleet.fit.question import Model
from gpufleet.model.model_errors import InputError, printable

MAGIC = b"GGUF"
# Version 1 counts in 32 bits.
VERSIONS = (2, 3)
TENSORS_MAX = 1 << 20
"""A file that claims more is broken: the number is read before the list, which would fill memory."""

TEXT_MAX = 1 << 24
"""A text or a list that claims to be longer is broken; the longest real list is the vocabulary."""

DIMENSIONS_MAX = 8
"""ggml itself has four."""

HEAD_BYTES_MAX = 512 << 20
"""The largest vocabularies have some 30 MB; the lists of many tensors less."""

# Types of values whose length is told in the file (gguf_metadata_value_type).
STRING, ARRAY = 8, 9
SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}

BLOCKS = {
    0: ("fp32", 1, 4),
    1: ("fp16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_0", 32, 20),
    6: ("q5_k_m", 32, 22),
    7: ("q5_k_m", 32, 24),
    8: ("q8_0", 32, 34),
    10: ("q2_k", 256, 84),
    11: ("q3_k_m", 256, 110),
    12: ("q4_k_m", 256, 144),
    13: ("q5_k_m", 256, 176),
    14: ("q6_k", 256, 210),
    16: ("q2_k", 256, 66),
    17: ("q2_k", 256, 74),
    18: ("q3_k_m", 256, 98),
    19: ("q2_k", 256, 50),
    20: ("q4_0", 32, 18),
    21: ("q3_k_m", 256, 110),
    22: ("q2_k", 256, 82),
    23: ("q4_k_m", 256, 136),
    30: ("bf16", 1, 2),
    39: ("mxfp4", 32, 17),
}
"""Types of ggml by their number: our nearest format, elements of a block, bytes of a block."""

Value = int | float | bool | str | list["Value"]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says before its weights: metadata, the bytes of all tensors, the most usual type."""

    metadata: dict[str, Value]
    weights_bytes: int
    format_name: str
    tensors: frozenset[str]


class _HeadReader:
    """Reads as far as a head may be long: a file with holes can claim one of terabytes."""

    def __init__(self, file: "io.BufferedReader[io.FileIO]") -> None:
        self._file = file
        self._left = HEAD_BYTES_MAX

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes, less at the end of the file. Raises OverflowError beyond the limit."""
        self._left -= size
        if self._left < 0:
            raise OverflowError
        return self._file.read(size)


def read_gguf(path: Path) -> Model:
    """The model of one file; raises InputError if it is none, or of a kind that is not known."""
    where = printable(str(path))
    parts = [_read_head(one) for one in all_parts(path)]
    # The first part has what describes the model.
    head = parts[0]
    tensors = frozenset(name for part in parts for name in part.tensors)
    facts = as_llama_cpp_keeps(facts_of(path.name, config_of(replace(head, tensors=tensors), where)), head)
    largest = max(parts, key=lambda one: one.weights_bytes)
    native = replace(facts, native=FORMATS[largest.format_name])
    return Model(native, Origin.GGUF, str(path), weights_bytes=sum(one.weights_bytes for one in parts))


def as_llama_cpp_keeps(facts: ModelFacts, head: Head) -> ModelFacts:
    """The facts with the keys that llama.cpp keeps: of files that were converted before it knew compressed
    keys, which lack their length, those of every head.
    """
    kind = head.metadata.get("general.architecture")
    if f"{kind}.attention.key_length_mla" in head.metadata:
        return facts
    layers = tuple(
        replace(layer, mixer=replace(layer.mixer, keeps_heads=True))
        if isinstance(layer.mixer, LatentAttention)
        else layer
        for layer in facts.layers
    )
    return replace(facts, layers=layers)


def _read_head(path: Path) -> Head:
    where = printable(str(path))
    try:
        with io.BufferedReader(open_regular(path)) as file:
            return _head(_HeadReader(file), where)
    except (struct.error, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise InputError("the file ends too early or is no GGUF", where=where) from error


def _head(file: _HeadReader, where: str) -> Head:
    if file.read(4) != MAGIC:
        raise InputError("this is no GGUF file", where=where)
    version, tensors, pairs = struct.unpack("<IQQ", file.read(20))
    if version not in VERSIONS or tensors > TENSORS_MAX or pairs > TENSORS_MAX:
        raise InputError("this kind of GGUF is not known", where=where, field="version", value=version)
    metadata = {_text(file): _value(file, _number(file, "<I")) for _ in range(pairs)}
    total, kinds, names = 0, dict[str, int](), set()
    for _ in range(tensors):
        names.add(_text(file))
        elements = 1
        dimensions = _number(file, "<I")
        if dimensions > DIMENSIONS_MAX:
            raise InputError("too many dimensions", where=where, field="dimensions", value=dimensions)
        for _dimension in range(dimensions):
            elements *= _number(file, "<Q")
        kind = _number(file, "<I")
        # The place of the weights in the file, which are not read.
        file.read(8)
        if kind not in BLOCKS:
            raise InputError("an unknown type of weights", where=where, field="type", value=kind)
        name, block, size = BLOCKS[kind]
        total += elements // block * size
        kinds[name] = kinds.get(name, 0) + elements
    # The first file of a model in several may have the metadata alone.
    if not kinds and not metadata.get("split.count"):
        raise InputError("the file holds no weights", where=where)
    usual = max(kinds, key=lambda one: kinds[one]) if kinds else "fp32"
    return Head(metadata, total, usual, frozenset(names))


def _number(file: _HeadReader, form: str) -> int:
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(value)


def _text(file: _HeadReader) -> str:
    length = _number(file, "<Q")
    if length > TEXT_MAX:
        raise OverflowError
    data = file.read(length)
    if len(data) < length:
        raise struct.error
    return data.decode()


def _value(file: _HeadReader, kind: int) -> Value:
    if kind == STRING:
        return _text(file)
    if kind == ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if count > TEXT_MAX or inner == ARRAY:
            raise OverflowError
        return [_value(file, inner) for _ in range(count)]
    form = SCALARS.get(kind)
    if form is None:
        raise struct.error
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return value  # type: ignore[no-any-return]


FIELDS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "full_attention_interval": "full_attention_interval",
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.time_step_rank": "linear_num_value_heads",
    "attention.key_length_mla": "key_length_mla",
    "attention.value_length_mla": "v_head_dim",
    "rope.dimension_count": "rope_dimensions",
}
MODEL_TYPES = {
    "gemma3": "gemma3_text",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "gpt-oss": "gpt_oss",
    "qwen3next": "qwen3_next",
    "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text",
}
LIKE_LLAMA = {
    "llama",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "phi3",
    "mistral3",
    "granite",
    "deepseek2",
    "starcoder2",
}
LIKE_LLAMA |= {*MODEL_TYPES, "olmo2", "cohere2", "smollm3", "glm4"}


def config_of(head: Head, where: str) -> ModelConfig:
    """The fields of a model's configuration, from the metadata of a GGUF file."""
    kind = head.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in LIKE_LLAMA:
        raise InputError(
            "this architecture is not known from GGUF files",
            where=where,
            field="general.architecture",
            value=kind,
            expected=", ".join(sorted(LIKE_LLAMA)),
        )
    found: dict[str, int] = {}
    for key, field in FIELDS.items():
        value = head.metadata.get(f"{kind}.{key}")
        # Taking one number for all layers would count another model.
        if isinstance(value, int) and value > 0:
            found[field] = value
        elif isinstance(value, list):
            raise InputError("layers that differ are not read from GGUF files", where=where, field=key)
    tokens = head.metadata.get("tokenizer.ggml.tokens")
    vocabulary = head.metadata.get(f"{kind}.vocab_size")
    count = vocabulary if isinstance(vocabulary, int) else len(tokens) if isinstance(tokens, list) else 0
    rotary, whole = found.pop("rope_dimensions", 0), found.pop("key_length_mla", 0)
    if "kv_lora_rank" in found:
        whole = whole or found.get("head_dim", 0)
        found |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": whole - rotary}
        value_length = head.metadata.get(f"{kind}.attention.value_length")
        if "v_head_dim" not in found and isinstance(value_length, int):
            found["v_head_dim"] = value_length
    if "linear_key_head_dim" in found:
        found["linear_value_head_dim"] = found["linear_key_head_dim"]
        # llama.cpp takes every fourth layer where the file does not say.
        found.setdefault("full_attention_interval", 4)
    return ModelConfig(
        model_type=MODEL_TYPES.get(kind, kind),
        vocab_size=count,
        tie_word_embeddings="output.weight" not in head.tensors,
        **found,  # type: ignore[arg-type]
    )
