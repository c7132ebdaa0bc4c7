"""Formats of checkpoints: bits from the file's own words, and what it keeps in 16 bits."""

import json
from typing import Any

import pytest

from gpufleet.fit.architecture import facts_of
from gpufleet.fit.facts import ModelFacts
from gpufleet.fit.ranks import Division
from gpufleet.fit.roles import EVERY_LAYER, Role
from gpufleet.fit.shapes import matrices
from gpufleet.fit.spellings import read_config
from gpufleet.fit.unquantised import globs_of, spared_parts
from gpufleet.fit.weights import on_one_gpu_bytes, total_bytes
from gpufleet.model.model_errors import InputError

GIB = 1 << 30
LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
LLAMA_405B = {
    "model_type": "llama",
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_attention_heads": 128,
    "num_hidden_layers": 126,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def facts(config: dict[str, Any], quantization: dict[str, Any]) -> ModelFacts:
    written = config | {"quantization_config": quantization}
    return facts_of("any", read_config(json.dumps(written).encode(), "config.json"))


def weights(kind: str, bits: int, **more: Any) -> dict[str, Any]:
    group = {"weights": {"num_bits": bits, "type": "int", **more}}
    return {"quant_method": "compressed-tensors", "format": kind, "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        # a scale of 16 bits and a zero of as many bits as a weight, for each group
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, 4 + 20 / 32),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 8 + 24 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4),
        # a scale alone
        (weights("pack-quantized", 4, group_size=64), 4 + 16 / 64),
        (weights("pack-quantized", 8, group_size=128), 8 + 16 / 128),
        (weights("pack-quantized", 8, strategy="channel"), 8),
        # a second scale for 256 of the first, or none
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 8 / 64 + 32 / (64 * 256)),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": False},
            4 + 32 / 64,
        ),
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / (128 * 128)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4 + 8 / 16),
    ],
)
def test_bits_are_those_of_the_file(quantization: dict[str, Any], bits: float) -> None:
    assert facts(LLAMA_8B, quantization).native.linear_bits == pytest.approx(bits)


def test_what_a_file_lists_stays_in_16_bits() -> None:
    """Meta's Llama 3.1 405B in fp8 keeps attention and the first and last feed-forward layer; vLLM's log of
    2024-07-24 (issue 6746) has 57.752 GiB on each of eight GPUs.
    """
    listed = [f"model.layers.{layer}.self_attn.{one}_proj" for layer in range(126) for one in "qkvo"]
    listed += [f"model.layers.{layer}.mlp.{one}_proj" for layer in (0, 125) for one in ("gate", "up", "down")]
    found = facts(LLAMA_405B, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": [*listed, "lm_head"]})
    assert on_one_gpu_bytes(found, found.native, Division(1, 8)) / GIB == pytest.approx(57.752, rel=0.02)


def test_the_arithmetic_of_what_is_spared() -> None:
    """Attention of 32 layers in 16 bits, the rest of each layer in 4 and its scales."""
    spared = weights("pack-quantized", 4, group_size=128) | {"ignore": ["re:.*self_attn.*", "lm_head"]}
    found = facts(LLAMA_8B, spared)
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    feed_forward = 32 * 3 * 4096 * 14336
    rest = sum(group.elements for group in matrices(found)) - attention - feed_forward
    expected = 2 * (attention + rest) + feed_forward * (4 + 16 / 128) / 8
    assert total_bytes(found, found.native) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["lm_head"], set()),
        (["re:.*mlp.gate$", "re:.*shared_expert_gate$"], set()),
        (["self_attn"], {(EVERY_LAYER, Role.ATTENTION)}),
        (["model.layers.*.self_attn"], {(EVERY_LAYER, Role.ATTENTION)}),
        ([r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"], {(EVERY_LAYER, Role.FEED_FORWARD)}),
        (["re:.*shared_experts.*"], {(EVERY_LAYER, Role.SHARED)}),
        (["re:.*linear_attn.*"], {(EVERY_LAYER, Role.RECURRENT)}),
        (["model.layers.0.mlp"], {(0, Role.FEED_FORWARD), (0, Role.SHARED), (0, Role.EXPERT)}),
        ([r"re:model\.layers\.[0-9]+\.self_attn\..*"], {(EVERY_LAYER, Role.ATTENTION)}),
        (["model.layers.9.self_attn"], set()),
    ],
)
def test_names_and_patterns_say_which_parts(entries: list[str], expected: set[tuple[int, Role]]) -> None:
    assert spared_parts(entries, 4) == expected


def test_a_pattern_that_would_keep_the_reader_busy_is_not_run() -> None:
    assert list(globs_of("re:(a+)+$")) == []
    assert list(globs_of("re:" + "(a|b)" * 40)) == []


def test_several_kinds_of_numbers_are_refused() -> None:
    mixed = weights("mixed-precision", 4, group_size=128)
    mixed["config_groups"]["group_1"] = {"weights": {"num_bits": 8, "type": "float"}}
    with pytest.raises(InputError, match="several kinds"):
        facts(LLAMA_8B, mixed)
