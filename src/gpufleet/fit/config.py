"""A model's ``config.json`` as publishers write it: the fields that decide how much memory it takes.

Publishers agree on few names, so every field may be missing; ``facts`` makes one description of a model
out of them. What stands in a file and is not named here says nothing about memory and is passed over;
the catalogue's own entries may hold nothing that is not named here.
"""

from typing import Any

import msgspec


class VisionConfig(msgspec.Struct, frozen=True):
    """The image encoder of a model that sees, as far as it has one of the usual shape."""

    model_type: str = ""
    hidden_size: int | None = None
    embed_dim: int | None = None
    num_hidden_layers: int | None = None
    depth: int | None = None
    intermediate_size: int | None = None
    mlp_ratio: float | None = None
    spatial_merge_size: int | None = None
    num_heads: int | None = None
    num_attention_heads: int | None = None
    num_global_layers: int | None = None
    deepstack_visual_indexes: list[int] | None = None


class AudioConfig(msgspec.Struct, frozen=True):
    """The encoder of a model that hears, as far as it has one of Whisper's shape."""

    d_model: int | None = None
    encoder_layers: int | None = None
    encoder_ffn_dim: int | None = None


class LinearAttentionConfig(msgspec.Struct, frozen=True):
    """Which layers of a model have linear attention, counted from 1, and its heads (Kimi)."""

    full_attn_layers: list[int] = []
    num_heads: int = 0
    head_dim: int = 0
    short_conv_kernel_size: int = 4


class Quantization(msgspec.Struct, frozen=True):
    """How a checkpoint's weights were quantised, in the words of its publisher."""

    quant_method: str = ""
    quant_algo: str | None = None
    bits: int | None = None
    group_size: int | None = None
    weight_block_size: list[int] | None = None
    bnb_4bit_use_double_quant: bool = True
    load_in_4bit: bool = False
    load_in_8bit: bool = False
    format: str = ""
    config_groups: dict[str, Any] = {}
    ignore: tuple[str, ...] | None = None
    modules_to_not_convert: tuple[str, ...] | None = None
    exclude_modules: tuple[str, ...] | None = None

    @property
    def spared(self) -> tuple[str, ...]:
        """The names or patterns of what stays in 16 bits."""
        return (*(self.ignore or ()), *(self.modules_to_not_convert or ()), *(self.exclude_modules or ()))


class ModelConfig(msgspec.Struct, frozen=True):
    """The fields of a configuration that decide about memory; those that the file lacks are None."""

    model_type: str = ""
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    vocab_size: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    tie_word_embeddings: bool | None = None
    max_position_embeddings: int | None = None
    torch_dtype: str | None = None
    dtype: str | None = None
    attention_bias: bool | None = None
    quantization_config: Quantization | None = None
    text_config: "ModelConfig | None" = None
    vision_config: VisionConfig | None = None
    audio_config: AudioConfig | None = None
    # Layers that only draft tokens: in the files, and not loaded unless that is asked for.
    num_nextn_predict_layers: int | None = None
    mtp_num_hidden_layers: int | None = None
    # Windows: which layers look at the last tokens only.
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    sliding_window_pattern: int | str | None = None
    layer_types: list[str] | None = None
    attention_chunk_size: int | None = None
    # Gemma: layers that see everything have heads of their own size, some read the keys of earlier
    # layers, and every layer has a table of its own.
    num_global_key_value_heads: int | None = None
    global_head_dim: int | None = None
    attention_k_eq_v: bool | None = None
    num_kv_shared_layers: int | None = None
    use_double_wide_mlp: bool | None = None
    hidden_size_per_layer_input: int | None = None
    vocab_size_per_layer_input: int | None = None
    altup_num_inputs: int | None = None
    laurel_rank: int | None = None
    # Layers that look at a picture instead of the text.
    cross_attention_layers: list[int] | None = None
    # Latent attention: keys and values are kept as one compressed vector.
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    index_n_heads: int | None = None
    index_head_dim: int | None = None
    # Mixtures of experts.
    num_experts: int | None = None
    num_local_experts: int | None = None
    n_routed_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    shared_expert_intermediate_size: int | None = None
    shared_intermediate_size: int | None = None
    moe_shared_expert_intermediate_size: int | None = None
    n_shared_experts: int | None = None
    first_k_dense_replace: int | None = None
    decoder_sparse_step: int | None = None
    mlp_only_layers: list[int] | None = None
    interleave_moe_layer_step: int | None = None
    enable_moe_block: bool | None = None
    moe_layer_freq: int | list[int] | None = None
    intermediate_size_mlp: int | None = None
    expert_layer_period: int | None = None
    expert_layer_offset: int | None = None
    # Layers that keep a state of fixed size in place of keys and values.
    full_attention_interval: int | None = None
    full_attention_layers: list[int] | None = None
    attn_type_list: list[int] | None = None
    linear_attn_config: LinearAttentionConfig | None = None
    conv_L_cache: int | None = None  # noqa: N815  the name of the file
    block_auto_adjust_ff_dim: bool | None = None
    block_ffn_dim_multiplier: float | None = None
    block_multiple_of: int | None = None
    mamba_d_ssm: int | None = None
    mamba_ssm_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    linear_num_key_heads: int | None = None
    linear_num_value_heads: int | None = None
    linear_key_head_dim: int | None = None
    linear_value_head_dim: int | None = None
    linear_conv_kernel_dim: int | None = None
    attn_layer_period: int | None = None
    attn_layer_offset: int | None = None
    hybrid_override_pattern: str | None = None
    mamba_num_heads: int | None = None
    mamba_head_dim: int | None = None
    ssm_state_size: int | None = None
    n_groups: int | None = None
    conv_kernel: int | None = None
    mamba_d_state: int | None = None
    mamba_d_conv: int | None = None
    mamba_expand: float | None = None
    mamba_n_heads: int | None = None
    mamba_d_head: int | str | None = None
    mamba_n_groups: int | None = None
    mamba_dt_rank: int | str | None = None
