"""Sizes that a configuration leaves out because the publisher's program has them as defaults.

Models that see keep the sizes of their text part in ``text_config`` and write only what differs from the
class of that ``model_type`` in transformers. These are the defaults of those classes (``configuration_*.py``
of transformers 4.57, 2025-10); for other types, and outside of ``text_config``, nothing is filled in.
"""

import msgspec

from gpufleet.fit.config import ModelConfig

_LLAMA = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
DEFAULTS: dict[str, dict[str, int]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8},
    "qwen2": {**_LLAMA, "intermediate_size": 22016, "vocab_size": 151936, "num_key_value_heads": 32},
    "gemma3_text": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
}


def filled(text: ModelConfig) -> ModelConfig:
    """The text part with what its class would fill in."""
    missing = {
        field: value
        for field, value in DEFAULTS.get(text.model_type, {}).items()
        if getattr(text, field) is None
    }
    return msgspec.structs.replace(text, **missing) if missing else text
