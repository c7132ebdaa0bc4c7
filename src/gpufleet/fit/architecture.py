"""From a configuration to facts: which layers a model has, by the conventions of its publisher.

The conventions that a file does not spell out (every second layer of Gemma 2 has a window, biases of
Qwen 2) stand here by ``model_type``. A field without which nothing can be said is asked for by name;
nothing is guessed. Recurrent layers are in ``recurrence``.
"""

from dataclasses import dataclass, replace

from gpufleet.fit.class_defaults import filled
from gpufleet.fit.config import ModelConfig
from gpufleet.fit.encoders import encoders_of
from gpufleet.fit.facts import (
    Dense,
    Experts,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mixer,
    ModelFacts,
    Recurrence,
)
from gpufleet.fit.quantised import native
from gpufleet.fit.recurrence import (
    gated_delta,
    kimi_delta,
    lightning,
    mamba_one,
    mamba_two,
    short_convolution,
)
from gpufleet.fit.shapes import of_layer
from gpufleet.model.model_errors import InputError

# Families whose output shares the embedding's weights where the configuration does not say.
TIED_UNLESS_SAID = ("gemma", "cohere", "lfm2", "gpt2", "opt", "bloom", "gpt_bigcode")
# Families with two matrices in a feed-forward layer; the others have a third, the gate.
PLAIN_FEED_FORWARD = (
    "phi",
    "starcoder2",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "falcon",
    "nemotron",
    "nemotron_h",
    "opt",
)
# Families whose queries, keys and values have a bias that no field tells.
QUERY_BIAS = ("qwen", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text", "gpt_oss")
# Families with norms behind attention and feed-forward too.
FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text", "gemma3n_text", "gemma4_text")
WINDOW_PATTERNS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "cohere2": 4,
    "gpt_oss": 2,
}
"""Every how many layers one sees everything, by the type of model, where the file does not say."""
# Families whose layers have attention and a state space beside each other.
TWO_MIXERS = ("falcon_h1",)
PICTURE_TOKENS = 4 * 1601
"""What a layer of Llama 3.2 that looks at a picture keeps of it: four tiles."""
CHUNKED_PATTERN = 4
"""In Llama 4 each fourth layer sees everything, the others a chunk."""

SIZE_MAX = 1 << 40
"""Far above any size of a model, its context and its vocabulary, so that a broken file gives no sums."""

LAYERS_MAX = 4096
"""Far above any model, so that a broken file does not make millions of layers."""


def facts_of(name: str, config: ModelConfig) -> ModelFacts:
    """The model that a configuration describes; raises InputError naming the first missing field."""
    text = filled(config.text_config) if config.text_config else config
    _refuse_sizes_beyond(name, text)
    if (text.num_hidden_layers or 0) > LAYERS_MAX:
        raise InputError(
            "no model has so many layers",
            where=name,
            field="num_hidden_layers",
            value=text.num_hidden_layers,
            expected=f"at most {LAYERS_MAX}",
        )
    reader = _Reader(name, text)
    layers = tuple(reader.layer(index) for index in range(reader.needed("num_hidden_layers")))
    hidden = reader.needed("hidden_size")
    tied = text.tie_word_embeddings if text.tie_word_embeddings is not None else config.tie_word_embeddings
    if tied is None:
        tied = text.model_type.startswith(TIED_UNLESS_SAID)
    encoders = encoders_of(config, hidden)
    vocabulary = reader.needed("vocab_size")
    facts = ModelFacts(
        name=name,
        model_type=text.model_type or config.model_type,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=layers,
        tied=tied,
        context_max=text.max_position_embeddings or 0,
        native=native(config, len(layers)),
        vision_parameters=encoders.parameters,
        vision_heads=encoders.heads,
        vision_peak_bytes=encoders.peak_bytes,
        layer_tables=vocabulary * len(layers) * (text.hidden_size_per_layer_input or 0),
        lacks=encoders.lacks,
    )
    return replace(facts, draft_elements=draft_elements(text, facts))


def draft_elements(text: ModelConfig, facts: ModelFacts) -> int:
    """Elements of the layers that only draft tokens, as files have them: a layer and what joins its two
    inputs.

    DeepSeek's and GLM's bring copies of both tables.
    """
    one = sum(group.elements for group in of_layer(facts.layers[-1], facts.hidden)) + 2 * facts.hidden**2
    tables = 2 * facts.vocabulary * facts.hidden
    return (text.num_nextn_predict_layers or 0) * (one + tables) + (text.mtp_num_hidden_layers or 0) * one


def _refuse_sizes_beyond(name: str, config: ModelConfig) -> None:
    for field in config.__struct_fields__:
        value = getattr(config, field)
        if isinstance(value, int) and value < 0:
            raise InputError("a negative size", where=name, field=field, value=value, expected="0 or more")
        if isinstance(value, int) and value > SIZE_MAX:
            what = "no model has such a size"
            raise InputError(what, where=name, field=field, value=value, expected=f"at most {SIZE_MAX}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads layer after layer out of one configuration."""

    name: str
    config: ModelConfig

    def needed(self, field: str) -> int:
        value = getattr(self.config, field)
        if value is None or value < 1:
            raise InputError(
                "the configuration says too little to count memory",
                where=self.name,
                field=field,
                value=value,
                expected="a positive number",
            )
        return int(value)

    def layer(self, index: int) -> Layer:
        config = self.config
        norms = 4 if config.model_type in FOUR_NORMS else 2
        if config.hybrid_override_pattern:
            return self.patterned(config.hybrid_override_pattern, index)
        beside = mamba_two(config, self.needed) if config.model_type in TWO_MIXERS else None
        return Layer(self.mixer(index), self.feed_forward(index), norms, beside, self.more(index))

    def more(self, index: int) -> int:
        """What Gemma adds to a layer: the way from its own table, a narrow detour, several streams."""
        config, hidden = self.config, self.config.hidden_size or 0
        count = 3 * hidden * (config.hidden_size_per_layer_input or 0) + 2 * hidden * (
            config.laurel_rank or 0
        )
        if config.altup_num_inputs and index == 0:
            count += 2 * (config.altup_num_inputs - 1) * hidden * hidden
        return count

    def patterned(self, pattern: str, index: int) -> Layer:
        """One letter a layer, each with one part only: M Mamba, * attention, - feed-forward, E experts."""
        if len(pattern) != self.needed("num_hidden_layers"):
            raise InputError(
                "the pattern of layers is not as long as the model",
                where=self.name,
                field="hybrid_override_pattern",
                value=pattern,
                expected=f"{self.needed('num_hidden_layers')} letters",
            )
        letter = pattern[index]
        if letter == "M":
            return Layer(mamba_two(self.config, self.needed), None, 1)
        if letter == "*":
            return Layer(self.grouped(index, None), None, 1)
        if letter == "-":
            return Layer(None, self.dense(), 1)
        if letter == "E" and (count := self.experts_count()):
            return Layer(None, self.experts(count), 1)
        raise InputError(
            "an unknown letter in the pattern of layers",
            where=self.name,
            field="hybrid_override_pattern",
            value=letter,
            expected="M, *, - or E",
        )

    def mixer(self, index: int) -> Mixer:
        config = self.config
        kind = self.kind(index)
        recurrent = self.recurrent(kind)
        if recurrent is not None:
            return recurrent
        if config.kv_lora_rank:
            return self.latent()
        if kind == "sliding_attention":
            return self.grouped(index, self.needed("sliding_window"))
        if kind == "chunked_attention":
            return self.grouped(index, self.needed("attention_chunk_size"))
        if kind == "cross_attention":
            return replace(self.grouped(index, None), fixed_tokens=PICTURE_TOKENS)
        if kind in {"full_attention", "attention"}:
            return self.grouped(index, None)
        raise InputError(
            "an unknown kind of layer",
            where=self.name,
            field="layer_types",
            value=kind,
            expected="full_attention, sliding_attention, chunked_attention, linear_attention, mamba or conv",
        )

    def recurrent(self, kind: str) -> Recurrence | None:
        """A layer that keeps a state of fixed size; None for other kinds."""
        config = self.config
        if kind == "delta_attention" and config.linear_attn_config:
            return kimi_delta(config.linear_attn_config, self.needed)
        if kind == "lightning" or (kind == "linear_attention" and config.model_type.startswith("minimax")):
            return lightning(config, self.needed)
        if kind in {"linear_attention", "linear"}:
            return gated_delta(config, self.needed)
        if kind == "mamba":
            return mamba_one(config, self.needed) if config.mamba_dt_rank else mamba_two(config, self.needed)
        return short_convolution(self.needed) if kind == "conv" else None

    def kind(self, index: int) -> str:
        """The kind of a layer in the words of `layer_types`, from whatever the file says about it."""
        config = self.config
        if config.cross_attention_layers and index in config.cross_attention_layers:
            return "cross_attention"
        if config.layer_types:
            if index >= len(config.layer_types):
                raise InputError("`layer_types` is shorter than the model", where=self.name)
            kind = config.layer_types[index]
            # A window that is switched off or empty sees everything.
            return "full_attention" if kind == "sliding_attention" and not self.window() else kind
        return self.listed_kind(index) or self.periodic_kind(index)

    def listed_kind(self, index: int) -> str:
        """The kind of a layer by the configuration's list of layers with attention; empty without one."""
        config = self.config
        if config.linear_attn_config:
            # Counted from 1.
            return (
                "full_attention"
                if index + 1 in config.linear_attn_config.full_attn_layers
                else "delta_attention"
            )
        if config.attn_type_list:
            if index >= len(config.attn_type_list):
                raise InputError("`attn_type_list` is shorter than the model", where=self.name)
            return "full_attention" if config.attn_type_list[index] else "lightning"
        if config.full_attention_layers:
            other = "conv" if config.conv_L_cache else "mamba"
            return "full_attention" if index in config.full_attention_layers else other
        return ""

    def periodic_kind(self, index: int) -> str:
        """The kind of a layer where the configuration says how often a kind comes back, or says nothing."""
        config = self.config
        if config.full_attention_interval and config.linear_num_value_heads:
            return (
                "full_attention" if (index + 1) % config.full_attention_interval == 0 else "linear_attention"
            )
        if config.attn_layer_period:
            offset = config.attn_layer_offset or 0
            return "full_attention" if index % config.attn_layer_period == offset else "mamba"
        # The first of these fields that is there decides.
        if config.attention_chunk_size:
            return "full_attention" if (index + 1) % CHUNKED_PATTERN == 0 else "chunked_attention"
        if not self.window():
            return "full_attention"
        pattern = config.sliding_window_pattern
        every = pattern if isinstance(pattern, int) else WINDOW_PATTERNS.get(config.model_type, 0)
        return "full_attention" if every and (index + 1) % every == 0 else "sliding_attention"

    def window(self) -> int:
        config = self.config
        # Qwen's class switches windows off where nothing is said.
        switched = config.use_sliding_window
        if switched is False or (switched is None and config.model_type.startswith("qwen")):
            return 0
        return config.sliding_window or 0

    def grouped(self, index: int, window: int | None) -> GroupedAttention:
        config = self.config
        heads = self.needed("num_attention_heads")
        head_dim = config.head_dim or self.needed("hidden_size") // heads
        kv_heads = config.num_key_value_heads or heads
        one_for_both = bool(config.attention_k_eq_v) and window is None
        if window is None and config.global_head_dim:
            head_dim = config.global_head_dim
        if one_for_both and config.num_global_key_value_heads:
            kv_heads = config.num_global_key_value_heads
        return GroupedAttention(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            window=window,
            bias=bool(config.attention_bias) or config.model_type in QUERY_BIAS,
            gated=config.linear_num_value_heads is not None,
            own_values=not one_for_both,
            caches=not self.shares_keys(index),
        )

    def shares_keys(self, index: int) -> bool:
        """Whether the layer reads what an earlier one kept."""
        return index >= self.needed("num_hidden_layers") - (self.config.num_kv_shared_layers or 0)

    def latent(self) -> LatentAttention:
        config = self.config
        return LatentAttention(
            heads=self.needed("num_attention_heads"),
            query_rank=config.q_lora_rank or 0,
            kv_rank=self.needed("kv_lora_rank"),
            plain_dim=self.needed("qk_nope_head_dim"),
            rotary_dim=self.needed("qk_rope_head_dim"),
            value_dim=self.needed("v_head_dim"),
            index_heads=config.index_n_heads or 0,
            index_dim=config.index_head_dim or 0,
        )

    def experts_count(self) -> int:
        config = self.config
        return config.num_experts or config.num_local_experts or config.n_routed_experts or 0

    def feed_forward(self, index: int) -> FeedForward:
        count = self.experts_count()
        if count > 1 and self.is_sparse(index):
            return self.experts(count)
        if self.config.use_double_wide_mlp and self.shares_keys(index):
            return replace(self.dense(), intermediate=2 * self.dense().intermediate)
        return self.dense()

    def is_sparse(self, index: int) -> bool:
        config = self.config
        if isinstance(config.moe_layer_freq, list):
            return index < len(config.moe_layer_freq) and bool(config.moe_layer_freq[index])
        if config.first_k_dense_replace is not None and index < config.first_k_dense_replace:
            return False
        if config.mlp_only_layers and index in config.mlp_only_layers:
            return False
        if config.expert_layer_period:
            return index % config.expert_layer_period == (config.expert_layer_offset or 0)
        step = config.interleave_moe_layer_step or config.decoder_sparse_step or 1
        return (index + 1) % step == 0

    def dense(self) -> Dense:
        config = self.config
        # Llama 4 gives its dense layers a width of their own.
        width = config.intermediate_size_mlp or config.shared_intermediate_size
        width = width or self.needed("intermediate_size")
        if config.block_auto_adjust_ff_dim:
            # Two thirds of what is written, rounded up to whole blocks (LFM 2).
            block = config.block_multiple_of or 1
            width = round((config.block_ffn_dim_multiplier or 1) * (2 * width // 3))
            width = -(-width // block) * block
        if config.model_type == "qwen":
            # The first Qwen writes the widths of gate and projection as one.
            width //= 2
        return Dense(width, config.model_type not in PLAIN_FEED_FORWARD)

    def experts(self, count: int) -> Experts:
        config = self.config
        width = config.moe_intermediate_size or self.needed("intermediate_size")
        shared = config.shared_expert_intermediate_size or config.moe_shared_expert_intermediate_size
        shared = shared or config.shared_intermediate_size or (config.n_shared_experts or 0) * width
        if config.model_type == "llama4_text":
            shared = width
        if config.enable_moe_block:
            # Gemma's dense part works beside the experts.
            shared = self.needed("intermediate_size")
        return Experts(
            count=count,
            per_token=self.needed("num_experts_per_tok"),
            intermediate=width,
            shared_intermediate=shared,
            gated=config.model_type not in PLAIN_FEED_FORWARD,
            bias=config.model_type == "gpt_oss",
        )
