"""How many bits a weight takes in each format, its scales included, and which weights the format holds.

Quantised checkpoints keep some of their weights in 16 bits: embeddings, the head and routers nearly
always, everything but the experts in MXFP4. The arithmetic of each row stands in its basis. ``quantised``
makes the format of a checkpoint of what its configuration says.
"""

from dataclasses import dataclass

from gpufleet.fit.roles import EVERY_LAYER, Role
from gpufleet.model.model_errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class WeightFormat:
    """Bits a weight by the place it has; ``spread`` is how far files of that name differ, as a ratio.

    ``group`` is how many weights in a row share a scale: tensor parallel may not cut through them.
    vLLM pads the width of experts on each GPU to a multiple of ``expert_padding`` where kernels need that.
    ``capability_min`` is NVIDIA's compute capability from which on vLLM has kernels for it. ``spared`` are
    parts that a checkpoint keeps in 16 bits, by layer. ``is_uneven``: checkpoints of that name may keep parts
    in 16 bits, and which ones is not known.
    """

    name: str
    linear_bits: float
    basis: str
    expert_bits: float | None = None
    embedding_bits: float = 16
    head_bits: float = 16
    spread: float = 0.005
    group: int = 1
    capability_min: float = 7.0
    expert_padding: int = 1
    is_gguf: bool = False
    spared: frozenset[tuple[int, Role]] = frozenset()
    is_uneven: bool = False

    def of_layer(self, role: Role, layer: int) -> float:
        """Bits of a weight of a part of that layer."""
        if (EVERY_LAYER, role) in self.spared or (layer, role) in self.spared:
            return 16.0
        if role is Role.EXPERT and self.expert_bits is not None:
            return self.expert_bits
        return self.linear_bits


def _gguf(name: str, linear: float, head: float, embedding: float, basis: str) -> WeightFormat:
    # Quantisers choose a type for each matrix, and converters differ in how.
    return WeightFormat(name, linear, basis, None, embedding, head, spread=0.03, is_gguf=True)


FORMATS = {
    row.name: row
    for row in (
        WeightFormat("fp32", 32, "4 bytes", embedding_bits=32, head_bits=32),
        WeightFormat("bf16", 16, "2 bytes"),
        WeightFormat("fp16", 16, "2 bytes"),
        WeightFormat(
            "fp8", 8, "1 byte, one 16 bit scale a row; embeddings and head 16 bit", capability_min=7.5
        ),
        WeightFormat(
            "fp8-block",
            8 + 32 / (128 * 128),
            "1 byte, a 32 bit scale for each block of 128 x 128; embeddings and head 16 bit",
            group=128,
            capability_min=8.0,
        ),
        WeightFormat(
            "int8", 8, "1 byte, one 16 bit scale a row (w8a8); embeddings and head 16 bit", capability_min=7.5
        ),
        WeightFormat(
            "awq",
            4 + 16 / 128 + 4 / 128,
            "4 bits, a 16 bit scale and a 4 bit zero for 128 weights; embeddings and head 16 bit",
            group=128,
            capability_min=7.5,
        ),
        WeightFormat(
            "gptq",
            4 + 16 / 128 + 4 / 128,
            "4 bits, a 16 bit scale and a 4 bit zero for 128 weights; embeddings and head 16 bit",
            group=128,
        ),
        WeightFormat(
            "w4a16",
            4 + 16 / 128,
            "4 bits, a 16 bit scale for 128 weights; embeddings and head 16 bit",
            group=128,
            capability_min=7.5,
        ),
        WeightFormat(
            "w8a16",
            8 + 16 / 128,
            "8 bits, a 16 bit scale for 128 weights; embeddings and head 16 bit",
            group=128,
            capability_min=7.5,
        ),
        WeightFormat(
            "w4a16-experts",
            16,
            "routed experts 4 bits with a 16 bit scale for 32 weights, everything else 16 bit",
            expert_bits=4 + 16 / 32,
            group=32,
            capability_min=7.5,
        ),
        WeightFormat(
            "nf4",
            4 + 8 / 64 + 32 / (64 * 256),
            "4 bits, an 8 bit scale for 64 weights, scaled again by 256; embeddings and head 16 bit",
            group=64,
        ),
        WeightFormat(
            "nvfp4",
            4 + 8 / 16,
            "4 bits, an 8 bit scale for 16 weights; embeddings and head 16 bit",
            spread=0.03,
            group=16,
            capability_min=8.0,
            is_uneven=True,
        ),
        WeightFormat(
            "mxfp4",
            16,
            "experts 4 bits with an 8 bit scale for 32 weights, everything else 16 bit",
            expert_bits=4 + 8 / 32,
            spread=0.025,
            expert_padding=256,
            capability_min=8.0,
        ),
        # Bits of llama.cpp's block types: Q8_0 8.5, Q6_K 6.5625, Q5_K 5.5, Q4_K 4.5, Q3_K 3.4375, Q2_K
        # 2.625. The mixed names (_M) take the next larger type for about a seventh of the weights.
        _gguf("q8_0", 8.5, 8.5, 8.5, "8 bits, a 16 bit scale for 32 weights"),
        _gguf("q6_k", 6.5625, 6.5625, 6.5625, "210 bytes for 256 weights"),
        _gguf("q5_k_m", 5.65, 6.5625, 5.5, "Q5_K, a part of values and down projections in Q6_K"),
        _gguf("q4_k_m", 4.8, 6.5625, 4.5, "Q4_K, a part of values and down projections in Q6_K"),
        _gguf("q4_0", 4.5, 6.5625, 4.5, "4 bits, a 16 bit scale for 32 weights"),
        _gguf("q3_k_m", 3.85, 6.5625, 3.4375, "Q3_K, a part of values and projections in Q4_K and Q5_K"),
        _gguf("q2_k", 3.0, 6.5625, 2.625, "Q2_K, a part of values and projections in Q3_K and Q4_K"),
    )
}


OTHER_WORDS = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "w8a8": "int8",
    "int4": "w4a16",
    "4bit": "nf4",
    "bnb": "nf4",
    "bitsandbytes": "nf4",
    "q4": "q4_k_m",
    "q8": "q8_0",
}
"""What people say for these formats."""


def format_named(name: str) -> WeightFormat:
    """The format of that name; raises InputError with the known names."""
    plain = name.lower().replace("-k", "_k")
    found = FORMATS.get(OTHER_WORDS.get(plain, plain))
    if found is None:
        raise InputError(
            "no such format of weights", field="--weights", value=name, expected=", ".join(FORMATS)
        )
    return found
