"""What publishers call one and the same thing, and parts of a configuration that cannot be counted here.

A file is decoded to plain values first: fields get the name that most publishers use, a list that says the
same number for every layer becomes that number, and a field that speaks of a structure which is not known
(other kinds of layers, other tables) is refused by its name. Passing it over would count another model.
``config`` has the fields that are known.
"""

import re
from typing import Any

import msgspec

from gpufleet.fit.config import ModelConfig
from gpufleet.model.model_errors import InputError

SAME = {
    "attn_layer_indices": "full_attention_layers",
    "d_model": "hidden_size",
    "ffn_dim": "intermediate_size",
    "ffn_hidden_size": "intermediate_size",
    "full_attn_idxs": "full_attention_layers",
    "kv_channels": "head_dim",
    "layers_block_type": "layer_types",
    "max_seq_len": "max_position_embeddings",
    "max_sequence_length": "max_position_embeddings",
    "moe_k": "num_experts_per_tok",
    "moe_layer_interval": "decoder_sparse_step",
    "moe_layer_start_index": "first_k_dense_replace",
    "moe_num_experts": "num_experts",
    "moe_num_shared_experts": "n_shared_experts",
    "moe_topk": "num_experts_per_tok",
    "multi_query_group_num": "num_key_value_heads",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
    "num_dense_layers": "first_k_dense_replace",
    "num_experts_per_token": "num_experts_per_tok",
    "num_kv_heads": "num_key_value_heads",
    "num_layers": "num_hidden_layers",
    "num_shared_expert": "n_shared_experts",
    "num_shared_experts": "n_shared_experts",
    "padded_vocab_size": "vocab_size",
    "seq_length": "max_position_embeddings",
    "top_k_experts": "num_experts_per_tok",
}
TEXT_PARTS = ("llm_config", "language_config", "text_model_config")
OF_EVERY_LAYER = (
    "intermediate_size",
    "moe_intermediate_size",
    "n_shared_experts",
    "num_attention_heads",
    "num_experts_per_tok",
    "num_key_value_heads",
)
REFUSED = ("chatglm", "dbrx", "deepseek_v4", "rwkv", "t5", "whisper")
"""Types with fields that mean something else than fields of that name in other types."""

STRUCTURE = re.compile(
    r"expert|mamba|ssm|rwkv|lru_|recurrent|linear_attn|attn_type|attn_layer|layer_pattern|block_type|block_configs"
    r"|cross_attention|kv_shared|kv_lora|lora_rank|per_layer_input|altup|laurel|compress_ratio|hc_mult"
    r"|lightning|n_?gram|engram|conv_l_|double_wide|engram"
)
HARMLESS = re.compile(
    r"router|aux|bias|norm|scor|multiplier|chunk|dt_|_act|init|_eps|parallel|kernel|jitter|dropout|capacity|scal"
    r"|output|loss|fused|drop|time_step|seq_len|impl|activation|freq|dim_key|weight|limit|token_id|group_limited"
)
"""What is said about such parts beside their sizes."""


def read_config(data: bytes, where: str) -> ModelConfig:
    """A configuration as it was published; raises InputError for what is none, or cannot be counted."""
    try:
        raw = msgspec.json.decode(data)
        if not isinstance(raw, dict):
            raise InputError("this is no configuration", where=where, expected="an object of JSON")
        return msgspec.convert(known(raw, where), ModelConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(error), where=where) from error


def known(raw: dict[str, Any], where: str) -> dict[str, Any]:
    """A configuration's fields under the names that ``config`` has."""
    if isinstance(raw.get("thinker_config"), dict):
        # A model that also speaks: servers of text run the part that thinks.
        raw = raw["thinker_config"]
    found = dict(raw)
    for part in TEXT_PARTS:
        if isinstance(found.get(part), dict):
            found.setdefault("text_config", found.pop(part))
    inner = found.get("text_config")
    if isinstance(inner, dict):
        found["text_config"] = _text(inner, where)
        return _without_text(found)
    return _text(found, where)


def _without_text(found: dict[str, Any]) -> dict[str, Any]:
    """Of what stands beside a text part only what is asked of it: types, tables, formats and encoders."""
    beside = {"model_type", "tie_word_embeddings", "torch_dtype", "dtype", "quantization_config"}
    beside |= {"text_config", "vision_config", "audio_config"}
    return {field: value for field, value in found.items() if field in beside}


def _text(raw: dict[str, Any], where: str) -> dict[str, Any]:
    kind = raw.get("model_type")
    # The first Qwen's encoders are of a shape of their own.
    if kind in REFUSED or (kind == "qwen" and (raw.get("visual") or raw.get("audio"))):
        raise InputError(
            "models of this type are not known",
            where=where,
            field="model_type",
            value=kind,
            expected="one whose layers are counted like those of the catalogue",
        )
    found: dict[str, Any] = {}
    for field, value in raw.items():
        name = SAME.get(field, field)
        if name == field or raw.get(name) is None:
            found[name] = _same_everywhere(name, value, where)
    for field, value in found.items():
        if value and field not in ModelConfig.__struct_fields__ and _is_structure(field):
            raise InputError(
                "this configuration has parts that are not known, and without them the count would be wrong",
                where=where,
                field=field,
            )
    return found


def _is_structure(field: str) -> bool:
    return bool(STRUCTURE.search(field.lower())) and not HARMLESS.search(field.lower())


def _same_everywhere(field: str, value: object, where: str) -> object:
    if field not in OF_EVERY_LAYER or not isinstance(value, list) or not value:
        return value
    if any(one != value[0] for one in value):
        raise InputError("layers that differ in this are not counted", where=where, field=field)
    return value[0]
