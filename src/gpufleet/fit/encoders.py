"""Encoders of pictures and sound beside a language model: about how many parameters they have.

Most are plain transformers with a projector, and are counted as such. What a configuration leaves to the
class of its type is filled in for the usual types; where sizes are still missing, that is said and not
guessed.
"""

from dataclasses import dataclass

from gpufleet.fit.config import AudioConfig, ModelConfig, VisionConfig

# Encoders of images whose feed-forward layers have a gate.
GATED = ("pixtral", "qwen2_5_vl", "gemma4_vision")
SIZES = {
    "siglip_vision_model": (1152, 27, 4304, 16),
    "clip_vision_model": (1024, 24, 4096, 16),
    "pixtral": (1024, 24, 4096, 16),
    "mllama_vision_model": (1280, 32, 5120, 16),
    "qwen2_vl": (1280, 32, 5120, 16),
    "qwen2_5_vl": (1280, 32, 3420, 16),
}
"""Width, layers, inner width and heads that the classes of transformers 4.57 have as defaults."""

PIECES = {"mllama_vision_model": 74_000_000}
"""Tables of positions that are too large to leave out: four tiles with 1601 pieces of 1280 for each of nine
shapes.
"""


LARGEST_PICTURES = {
    "siglip_vision_model": 64 * 64,
    "mllama_vision_model": 4 * 1601,
    "pixtral": 110 * 110,
}
"""Pieces of the largest picture, by the type: its side over that of a piece, squared."""

MERGED_PIECES = 4 * 16_384
"""Encoders that merge four neighbours take pictures of up to 16,384 tokens, as Qwen2-VL's processor says."""

OTHER_PIECES = 16_384
"""Above the largest picture of the encoders whose processors were read and that do not merge."""


@dataclass(frozen=True, slots=True)
class Encoders:
    """Parameters of all of them, among how many GPUs they can be divided, and what is not counted.

    ``peak_bytes`` are held while the largest picture is read.
    """

    parameters: int = 0
    heads: int = 1
    lacks: str = ""
    peak_bytes: int = 0


def encoders_of(config: ModelConfig, hidden: int) -> Encoders:
    """The encoders that the configuration describes; ``hidden`` is the width of the language model."""
    parts = []
    if config.vision_config is not None:
        parts.append(_vision(config.vision_config, hidden))
    if config.audio_config is not None:
        parts.append(_audio(config.audio_config, hidden))
    return Encoders(
        sum(part.parameters for part in parts),
        min((part.heads for part in parts), default=1),
        "; ".join(part.lacks for part in parts if part.lacks),
        max((part.peak_bytes for part in parts), default=0),
    )


def _vision(vision: VisionConfig, hidden: int) -> Encoders:
    usual = SIZES.get(vision.model_type, (0, 0, 0, 1))
    # Qwen 2 calls its own width embed_dim, and that of the language model hidden_size.
    width = vision.embed_dim or vision.hidden_size or usual[0]
    depth = vision.num_hidden_layers or vision.depth or usual[1]
    depth += vision.num_global_layers or 0
    inner = vision.intermediate_size or (round(width * vision.mlp_ratio) if vision.mlp_ratio else 0)
    inner = inner or usual[2] or 4 * width
    heads = vision.num_heads or vision.num_attention_heads or usual[3]
    if not width or not depth:
        return Encoders(lacks="the image encoder, whose sizes the configuration does not say")
    # Some merge neighbouring pieces of the picture before they reach the width of the text, and some do so at
    # several depths.
    merged = width * (vision.spatial_merge_size or 1) ** 2
    projector = merged * hidden + (merged * merged if merged > width else 0)
    projectors = 1 + len(vision.deepstack_visual_indexes or ())
    matrices_count = 3 if vision.model_type in GATED else 2
    layers = depth * (4 * width * width + matrices_count * width * inner)
    usual_pieces = MERGED_PIECES if (vision.spatial_merge_size or 1) > 1 else OTHER_PIECES
    pieces = LARGEST_PICTURES.get(vision.model_type, usual_pieces)
    return Encoders(
        layers + projectors * projector + PIECES.get(vision.model_type, 0),
        max(1, heads),
        # 16 bit numbers: the inside of the feed-forward part, and about six inputs and outputs of a layer.
        peak_bytes=2 * pieces * ((matrices_count - 1) * inner + 6 * width),
    )


def _audio(audio: AudioConfig, hidden: int) -> Encoders:
    width, depth = audio.d_model or 0, audio.encoder_layers or 0
    if not width or not depth:
        return Encoders(lacks="the encoder of sound, whose sizes the configuration does not say")
    inner = audio.encoder_ffn_dim or 4 * width
    return Encoders(depth * (4 * width * width + 2 * width * inner) + width * hidden)
