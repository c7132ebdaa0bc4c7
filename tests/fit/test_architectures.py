"""Families by the parts that only they have: configurations in their publishers' words, counted.

Totals are those that the publishers state on their model cards; keys and values are arithmetic by hand.
"""

import json
from typing import Any

import msgspec
import pytest

from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import find_model
from gpufleet.fit.facts import ModelFacts
from gpufleet.fit.kv_cache import CacheLayout, model_token_bytes, sequence_bytes
from gpufleet.fit.shapes import active_parameters, parameters
from gpufleet.fit.spellings import read_config
from gpufleet.fit.weights import loaded_bytes
from gpufleet.model.model_errors import InputError

GIB = 1 << 30


def sizes(
    hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocabulary: int, **more: Any
) -> dict[str, Any]:
    usual = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
    }
    return usual | more


LINEAR = {
    "full_attention_interval": 4,
    "head_dim": 256,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}
QWEN_7B = {
    "architectures": ["QWenLMHeadModel"],
    "bf16": True,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "kv_channels": 128,
    "layer_norm_epsilon": 1e-06,
    "max_position_embeddings": 32768,
    "model_type": "qwen",
    "no_bias": True,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rotary_emb_base": 10000,
    "seq_length": 8192,
    "tie_word_embeddings": False,
    "use_logn_attn": True,
    "vocab_size": 151936,
}
QWEN_3_5_9B = sizes(4096, 12288, 32, 16, 4, 248320, model_type="qwen3_5_text", **LINEAR)
QWEN_3_5_35B = sizes(
    2048,
    0,
    40,
    16,
    2,
    248320,
    model_type="qwen3_5_moe_text",
    num_experts=256,
    num_experts_per_tok=8,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    **LINEAR,
)
BAMBA = sizes(
    4096,
    14336,
    32,
    32,
    8,
    128256,
    model_type="bamba",
    attn_layer_indices=[9, 18, 27],
    mamba_d_state=128,
    mamba_n_heads=128,
    mamba_d_head="auto",
    mamba_n_groups=1,
    mamba_d_conv=4,
    mamba_expand=2,
)
ERNIE = sizes(
    2560,
    12288,
    28,
    20,
    4,
    103424,
    model_type="ernie4_5_moe",
    moe_num_experts=64,
    moe_k=6,
    moe_intermediate_size=1536,
    moe_layer_start_index=1,
    moe_layer_interval=1,
    moe_num_shared_experts=2,
    tie_word_embeddings=True,
)
LING_LITE = sizes(
    2048,
    5632,
    28,
    16,
    4,
    126464,
    model_type="bailing_moe",
    head_dim=128,
    num_experts=64,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
    num_shared_experts=2,
    first_k_dense_replace=0,
)
HUNYUAN = sizes(
    4096,
    3072,
    32,
    32,
    8,
    128167,
    model_type="hunyuan_v1_moe",
    head_dim=128,
    num_experts=64,
    moe_topk=[8] * 32,
    moe_intermediate_size=[3072] * 32,
    num_shared_expert=[1] * 32,
    tie_word_embeddings=True,
)
MINIMAX_01 = sizes(
    6144,
    9216,
    80,
    64,
    8,
    200064,
    model_type="minimax_text_01",
    head_dim=128,
    num_local_experts=32,
    num_experts_per_tok=2,
    attn_type_list=([0] * 7 + [1]) * 10,
    shared_intermediate_size=0,
)
KIMI_LINEAR = sizes(
    2304,
    9216,
    27,
    32,
    32,
    163840,
    model_type="kimi_linear",
    head_dim=72,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    q_lora_rank=None,
    num_experts=256,
    num_experts_per_token=8,
    moe_intermediate_size=1024,
    num_shared_experts=1,
    first_k_dense_replace=1,
    linear_attn_config={
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
)
LFM2 = sizes(
    2048,
    12288,
    16,
    32,
    8,
    65536,
    model_type="lfm2",
    conv_L_cache=3,
    full_attn_idxs=[2, 5, 8, 10, 12, 14],
    block_auto_adjust_ff_dim=True,
    block_ffn_dim_multiplier=1.0,
    block_multiple_of=256,
)
LLAMA_VISION = {
    "model_type": "mllama",
    "vision_config": {"model_type": "mllama_vision_model", "num_global_layers": 8},
    "text_config": sizes(
        4096,
        14336,
        40,
        32,
        8,
        128256,
        model_type="mllama_text_model",
        cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38],
    ),
}
GEMMA_4 = {
    "model_type": "gemma4",
    "text_config": sizes(
        5376,
        21504,
        60,
        32,
        16,
        262144,
        model_type="gemma4_text",
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=4,
        attention_k_eq_v=True,
        num_kv_shared_layers=0,
        hidden_size_per_layer_input=0,
        num_experts=None,
        sliding_window=1024,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 10,
        tie_word_embeddings=True,
    ),
}
QWEN2_VL = sizes(
    3584,
    18944,
    28,
    28,
    4,
    152064,
    model_type="qwen2_vl",
    tie_word_embeddings=False,
    vision_config={
        "model_type": "qwen2_vl",
        "depth": 32,
        "embed_dim": 1280,
        "hidden_size": 3584,
        "mlp_ratio": 4,
        "num_heads": 16,
        "spatial_merge_size": 2,
    },
)
INTERN_VL = {
    "model_type": "internvl_chat",
    "llm_config": sizes(3584, 18944, 28, 28, 4, 151674, model_type="qwen2"),
    "vision_config": {
        "model_type": "intern_vit_6b",
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "intermediate_size": 4096,
    },
}


def facts(config: dict[str, Any]) -> ModelFacts:
    return facts_of("any", read_config(json.dumps(config).encode(), "config.json"))


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (BAMBA, 9.78),
        (ERNIE, 21.8),
        (LING_LITE, 16.8),
        (HUNYUAN, 80.4),
        (MINIMAX_01, 456),
        (KIMI_LINEAR, 49.1),
        (LFM2, 1.17),
        (LLAMA_VISION, 10.6),
        (GEMMA_4, 30.7),
        (QWEN2_VL, 8.29),
        (INTERN_VL, 7.94),
        (QWEN_7B, 7.721),
    ],
    ids=lambda value: str(value.get("model_type")) if isinstance(value, dict) else None,
)
def test_a_family_counts_up_to_what_its_publisher_states(config: dict[str, Any], billions: float) -> None:
    assert parameters(facts(config)) / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("config", "billions"), [(ERNIE, 3), (LING_LITE, 2.75), (HUNYUAN, 13), (MINIMAX_01, 45.9)]
)
def test_and_so_do_the_parameters_of_one_token(config: dict[str, Any], billions: float) -> None:
    assert active_parameters(facts(config)) / 1e9 == pytest.approx(billions, rel=0.12)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Only the layers that are listed have keys: 3 of 32, 6 of 16, 10 of 80.
        (BAMBA, 2 * 3 * 8 * 128 * 2),
        (LFM2, 2 * 6 * 8 * 64 * 2),
        (MINIMAX_01, 2 * 10 * 8 * 128 * 2),
        # 7 layers with latent attention of 512 + 64
        (KIMI_LINEAR, 7 * 576 * 2),
        # 8 of 40 layers look at the picture
        (LLAMA_VISION, 2 * 32 * 8 * 128 * 2),
        # 50 layers with 16 heads of 256, 10 with 4 of 512
        (GEMMA_4, 2 * 2 * (50 * 16 * 256 + 10 * 4 * 512)),
        (QWEN_3_5_9B, 2 * 8 * 4 * 256 * 2),
    ],
)
def test_a_token_keeps_keys_in_the_layers_that_have_them(config: dict[str, Any], expected: int) -> None:
    assert model_token_bytes(facts(config), 2.0) == expected


def test_a_picture_is_kept_once_and_not_for_each_token() -> None:
    """Four tiles of 1601 pieces in 8 layers, 8 heads of 128."""
    layout = CacheLayout(2.0, 16, 8192, is_grouped=False)
    found = sequence_bytes(facts(LLAMA_VISION), 16, 1, 1, layout)
    assert found == 16 * 2 * 32 * 8 * 128 * 2 + 4 * 1601 * 2 * 8 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("config", "tensor", "element", "pages", "pool", "context", "times"),
    [
        # vLLM's log of Qwen3.5-9B under `vllm bench latency`, which caches no prompts, on two GPUs, 2026.
        (QWEN_3_5_9B, 2, 2.0, 1, 15.06, 4096, 169.82),
        # vLLM's log of Qwen3.5-35B-A3B with keys in fp8 and cached prompts, 2026-03-20.
        (QWEN_3_5_35B, 1, 1.0, 2, 5.69, 32768, 12.91),
    ],
)
def test_states_and_keys_share_pages_as_vllm_lays_them_out(
    config: dict[str, Any], tensor: int, element: float, pages: int, pool: float, context: int, times: float
) -> None:
    layout = CacheLayout(element, 16, 2048, is_grouped=True, state_pages=pages)
    one = sequence_bytes(facts(config), context, tensor, 1, layout)
    assert pool * GIB / one == pytest.approx(times, rel=0.005)


def test_states_of_16_bits_make_blocks_of_544_tokens() -> None:
    """vLLM says so of Qwen3-Next: 32 x 128 x 128 x 2 + 8192 x 3 x 2 bytes, 2,048 a token, steps of 16."""
    config = sizes(2048, 5120, 48, 16, 2, 151936, model_type="qwen3_next", **LINEAR)
    del config["mamba_ssm_dtype"]
    layout = CacheLayout(2.0, 16, 2048, is_grouped=True, state_pages=1)
    page = 544 * 2 * 2 * 256 * 2
    # 12 layers with keys, 36 with states, each of a page
    assert sequence_bytes(facts(config), 544, 1, 1, layout) == 48 * page
    assert sequence_bytes(facts(config), 545, 1, 1, layout) == 60 * page


@pytest.mark.parametrize(
    ("name", "total"),
    [
        # As the hub counts them (2026-09-25), where the files have a layer that only drafts.
        ("qwen3-next-80b-a3b", 81_324_862_720),
        ("qwen3.5-9b", 9_653_104_368),
        ("qwen3.6-27b", 27_781_427_952),
        ("qwen3.6-35b-a3b", 35_951_822_704),
        ("glm-4.5", 358_337_791_296),
        ("glm-4.5-air", 110_468_824_832),
        ("deepseek-v3", 684_531_386_000),
    ],
)
def test_layers_that_only_draft_are_in_the_files(name: str, total: int) -> None:
    config = find_model(name).config
    if name.startswith("qwen3-next"):
        config = msgspec.structs.replace(config, mtp_num_hidden_layers=1)
    elif config.text_config is None:
        config = msgspec.structs.replace(config, num_nextn_predict_layers=1)
    found = facts_of(name, config)
    assert parameters(found) + found.draft_elements == pytest.approx(total, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "files", "loaded"),
    [
        # The hub counts 751,632,384 parameters of Qwen3 0.6B, the table twice; vLLM loads 1.12 GiB.
        ("qwen3-0.6b", 2 * 751_632_384, 2 * 596_049_920),
        ("qwen3-1.7b", 2 * 2_031_739_904, 2 * 1_720_574_976),
        # Here the table is there once.
        ("qwen3-4b", 2 * 4_022_468_096, 2 * 4_022_468_096),
        ("qwen3.6-27b", 2 * 27_781_427_952, 2 * 27_356_744_432),
    ],
)
def test_what_files_have_beside_is_not_loaded(name: str, files: int, loaded: int) -> None:
    found = facts_of(name, find_model(name).config)
    assert loaded_bytes(found, found.native, files) == pytest.approx(loaded, rel=1e-3)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"compress_ratios": [4, 128]}, "compress_ratios"),
        ({"num_zero_experts": 4}, "num_zero_experts"),
        ({"block_configs": [{"attention": {}}]}, "block_configs"),
        ({"num_key_value_heads": [8, 4]}, "num_key_value_heads"),
        ({"model_type": "deepseek_v4"}, "model_type"),
    ],
)
def test_parts_that_are_not_known_are_refused_and_not_passed_over(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        facts(sizes(4096, 14336, 2, 32, 8, 32000, model_type="llama") | more)


def test_the_first_qwen_writes_two_widths_as_one() -> None:
    assert parameters(facts(QWEN_7B)) == 7_721_324_544
    with pytest.raises(InputError, match="not known"):
        facts(QWEN_7B | {"visual": {"heads": 16, "layers": 48, "width": 1664}})


def test_what_is_said_about_routers_is_no_other_kind_of_part() -> None:
    more = {"router_aux_loss_coef": 0.1, "norm_topk_prob": True, "mamba_chunk_size": 256, "n_group": 8}
    plain = sizes(4096, 14336, 2, 32, 8, 32000, model_type="llama")
    assert facts(plain | more).layers == facts(plain).layers
