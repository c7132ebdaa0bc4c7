"""The estimates against what others measured: nothing here was measured by us, nothing fitted to one row.

`LATE`: llm-d-planner, docs/accuracy/vllm-v0.19.0-accuracy-report.md (2026-04), vLLM 0.19.0 on H100-80GB at
0.95 of its memory. The report prints activations as the planner's constant and its error, so the
measured value is constant / (1 + error). `EARLY`: llm-d-planner's analysis of vLLM's logs of 2025 on the
same card, at 0.9, with pools printed as they were logged.
"""

from dataclasses import replace
from statistics import mean

import pytest

from gpufleet.fit.answer import Memory
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import find_cards, find_model
from gpufleet.fit.division import Division
from gpufleet.fit.engines import engine_named
from gpufleet.fit.facts import Origin
from gpufleet.fit.formats import format_named
from gpufleet.fit.placing import memory_of
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.ranges import GIB

# model, tensor parallel, weights format ("" as published), activations in GiB
LATE = [
    ("qwen1.5-moe-a2.7b", 1, "", 8.00 / 3.2389),
    ("qwen2.5-7b", 1, "", 2.21),
    ("qwen2.5-7b", 4, "", 2.21),
    ("qwen3-30b-a3b", 1, "", 8.00 / 2.9851),
    ("qwen3-8b", 1, "", 2.21),
    ("codellama-7b", 1, "", 4.80 / 6.2338),
    ("deepseek-v2-lite", 1, "", 8.00 / 4.1451),
    ("granite-3.1-2b", 1, "", 5.50 / 7.3333),
    ("granite-3.1-8b", 1, "", 5.50 / 6.4706),
    ("granite-3.3-8b", 1, "", 5.50 / 6.4706),
    ("llama-3.1-8b", 1, "", 1.89),
    ("llama-3.1-8b", 2, "", 1.89),
    ("llama-3.1-8b", 4, "", 1.89),
    ("phi-4", 1, "", 5.50 / 3.6184),
    ("phi-2", 1, "", 5.50 / 6.9620),
    ("mistral-small-3.1-24b", 1, "", 2.50 / 1.2315),
    ("gemma-2-2b", 1, "", 5.50 / 1.5193),
    ("gemma-2-9b", 1, "", 5.50 / 1.5068),
    ("gemma-2-27b", 1, "", 5.50 / 1.5027),
    ("gemma-3-4b", 1, "", 5.50 / 1.4139),
    ("gemma-3-12b", 1, "", 5.50 / 1.3959),
    ("gemma-3-27b", 1, "", 5.50 / 1.3784),
    ("mixtral-8x7b", 2, "", 8.00 / 6.6116),
    ("llama-4-scout", 4, "", 8.00 / 2.5078),
    ("gpt-oss-20b", 2, "", 8.00 / 2.7875),
    ("kimi-dev-72b", 2, "", 5.60 / 2.4454),
]
# model, tensor parallel, format, weights in GiB
WEIGHTS = [
    ("llama-3.1-8b", 1, "", 14.99),
    ("llama-3.1-8b", 2, "", 7.51),
    ("llama-3.1-8b", 4, "", 3.77),
    ("qwen2.5-7b", 1, "", 14.25),
    ("qwen2.5-7b", 2, "", 7.12),
    ("qwen2.5-7b", 4, "", 3.55),
    ("qwen3-8b", 1, "", 15.27),
    ("llama-3.1-8b", 1, "fp32", 29.98),
    ("llama-3.1-8b", 1, "fp8", 8.49),
    ("llama-3.3-70b", 1, "fp8", 67.72),
    ("llama-3.3-70b", 2, "fp8", 33.88),
    ("qwen3-0.6b", 1, "", 1.12),
    ("qwen3-32b", 1, "", 61.03),
    ("qwen3-32b", 2, "", 30.59),
    ("gpt-oss-20b", 1, "", 13.47),
    ("gpt-oss-120b", 1, "", 64.38),
]
# of other logs: model, tensor parallel, weights in GiB
OTHER_WEIGHTS = [
    # vLLM's pull request 10511, 2024-12-14
    ("llama-3-8b", 1, 14.96),
    ("llama-3-8b", 2, 7.48),
    # vLLM's issue 15676, 2025-03-28
    ("gemma-3-27b", 4, 13.1665),
    # vLLM's issue 13061, 2025-02-11, of DeepSeek's distillate, which has the same shapes
    ("qwen2.5-14b", 2, 13.9476),
    # vLLM's issue 33155, 2026-01-27
    ("gpt-oss-120b", 1, 64.38),
    # a guide to MiniMax M2.5, which has the shapes of M2, on RTX PRO 6000, 2026-02
    ("minimax-m2", 4, 53.75),
]
# model, tensor parallel, format, activations, pool
EARLY = [
    ("gpt-oss-20b", 1, "", 7.38, 50.28),
    ("llama-3.3-70b", 2, "fp8", 4.84, 32.00),
    ("llama-3.1-8b", 1, "", 4.76, 51.38),
    ("qwen3-0.6b", 1, "", 5.56, 64.45),
    ("qwen3-32b", 1, "", 5.64, 4.45),
    ("qwen3-32b", 2, "", 5.64, 34.49),
]


def memory(name: str, tensor: int, form: str, utilisation: float, engine: str = "vllm") -> Memory:
    entry = find_model(name)
    facts = facts_of(name, entry.config)
    serving = Serving(
        8192, 1, format_named(form) if form else facts.native, "auto", engine_named(engine), utilisation
    )
    model = Model(facts, Origin.CATALOGUE, entry.address)
    return memory_of(model, serving, find_cards("h100-80")[0], Division(1, tensor))


def off(estimate: float, measured_gib: float) -> float:
    return estimate / GIB / measured_gib - 1


@pytest.mark.parametrize(("name", "tensor", "form", "measured"), LATE)
def test_activations_are_within_a_fifth(name: str, tensor: int, form: str, measured: float) -> None:
    assert abs(off(memory(name, tensor, form, 0.95).activations.bytes, measured)) < 0.20


def test_activations_are_near_on_average() -> None:
    errors = [abs(off(memory(name, t, f, 0.95).activations.bytes, gib)) for name, t, f, gib in LATE]
    assert mean(errors) < 0.06


def test_weights_are_within_a_hundredth_on_average() -> None:
    errors = [abs(off(memory(name, t, f, 0.95).weights.bytes, gib)) for name, t, f, gib in WEIGHTS]
    assert mean(errors) < 0.01


def test_weights_of_other_logs_are_within_a_hundredth_on_average() -> None:
    errors = [abs(off(memory(name, t, "", 0.9).weights.bytes, gib)) for name, t, gib in OTHER_WEIGHTS]
    assert mean(errors) < 0.01
    assert max(errors) < 0.02


@pytest.mark.parametrize(("name", "tensor", "form", "activations", "pool"), EARLY)
def test_the_older_sampler_needs_more(
    name: str, tensor: int, form: str, activations: float, pool: float
) -> None:
    found = memory(name, tensor, form, 0.9, "vllm-0.16")
    assert abs(off(found.activations.bytes, activations)) < 0.20
    assert abs(off(found.kv_pool.bytes, pool)) < 0.05


@pytest.mark.parametrize(
    ("name", "tensor", "form", "pool"),
    [("llama-3.1-8b", 1, "", 58.11), ("qwen2.5-7b", 1, "", 58.53), ("llama-3.1-8b", 1, "fp8", 64.61)],
)
def test_the_pool_is_within_a_twentieth(name: str, tensor: int, form: str, pool: float) -> None:
    assert abs(off(memory(name, tensor, form, 0.95).kv_pool.bytes, pool)) < 0.05


def test_a_pool_of_so_many_bytes_holds_so_many_tokens() -> None:
    """58.11 GiB held 476,016 tokens of Llama 3.1 8B, 58.53 GiB 1,096,000 of Qwen 2.5 7B."""
    llama = memory("llama-3.1-8b", 1, "", 0.95).sequence_bytes / 8192
    qwen = memory("qwen2.5-7b", 1, "", 0.95).sequence_bytes / 8192
    assert 58.11 * GIB / llama == pytest.approx(476_016, rel=1e-3)
    assert 58.53 * GIB / qwen == pytest.approx(1_096_000, rel=1e-3)


def test_what_failed_to_start_does_not_fit() -> None:
    """Llama 3.3 70B in fp8 on one H100 had -1.44 GiB left; gpt-oss-120b had 3.33 GiB."""
    assert memory("llama-3.3-70b", 1, "fp8", 0.9, "vllm-0.16").kv_pool.bytes < 0
    assert memory("gpt-oss-120b", 1, "", 0.9, "vllm-0.16").kv_pool.low_bytes < 3.33 * GIB


def test_groups_of_layers_are_padded_as_vllm_pads_them() -> None:
    """The report's planner counted 62 layers of Gemma 3 27B, 34 of 4B and 48 of 12B, and vLLM held fewer
    sequences by 70/62, 35/34 and 48/48: 11.4 %, 2.8 % and 0.0 % were measured, of which 1.4 %, 0.3 % and
    0.2 % the other way are due to the pool.
    """
    for name, layers, counted in (("gemma-3-27b", 62, 70), ("gemma-3-4b", 34, 35), ("gemma-3-12b", 48, 48)):
        facts = facts_of(name, find_model(name).config)
        heads = find_model(name).config.text_config
        assert heads is not None
        per_layer = 2 * (heads.num_key_value_heads or 0) * (heads.head_dim or 0) * 2 * 8192
        found = memory(name, 1, "", 0.95).sequence_bytes
        assert len(facts.layers) == layers
        assert found == pytest.approx(counted * per_layer, rel=0.01)


@pytest.mark.parametrize(
    ("name", "gpu", "utilisation", "pool"),
    [
        # vLLM 0.31.0 with its defaults on A100-80GB, log of 2026-10-06: 15.26 GiB of weights and runtime,
        # 1.44 GiB of activations with what is reserved.
        ("llama-3.1-8b", "a100-80", 0.92, 56.21),
        # vLLM 0.24.0 on RTX 5090, a log of 2026: 89,040 tokens of 147,456 bytes.
        ("qwen3-8b", "rtx-5090", 0.92, 12.228),
    ],
)
def test_what_reserves_graphs_leaves_less(name: str, gpu: str, utilisation: float, pool: float) -> None:
    entry = find_model(name)
    model = Model(facts_of(name, entry.config), Origin.CATALOGUE, entry.address)
    serving = Serving(8192, 1, format_named("bf16"), "auto", engine_named("vllm-0.21"), utilisation)
    found = memory_of(model, serving, find_cards(gpu)[0], Division(1, 1))
    assert abs(off(found.kv_pool.bytes, pool)) < 0.05
    assert found.kv_pool.low_bytes <= pool * GIB <= found.kv_pool.high_bytes


def test_a_large_batch_makes_a_layer_the_highest_moment() -> None:
    """vLLM's log of 2026-08-02: Qwen 2.5 0.5B with batches of 32768 tokens had a peak of 1.06 GiB."""
    entry = find_model("qwen2.5-0.5b")
    model = Model(facts_of("qwen2.5-0.5b", entry.config), Origin.CATALOGUE, entry.address)
    serving = Serving(8192, 1, format_named("bf16"), "auto", engine_named("vllm"), 0.9)
    large = replace(serving, sequences_max=256, batched_tokens=32768)
    found = memory_of(model, large, find_cards("t4")[0], Division(1, 1))
    assert abs(off(found.activations.bytes, 1.06)) < 0.20


def test_more_sequences_at_once_need_more() -> None:
    entry = find_model("llama-3.1-8b")
    model = Model(facts_of("llama-3.1-8b", entry.config), Origin.CATALOGUE, entry.address)
    serving = Serving(8192, 1, format_named("bf16"), "auto", engine_named("vllm"), 0.9)
    card = find_cards("h100-80")[0]
    few = memory_of(model, replace(serving, sequences_max=256), card, Division(1, 1))
    many = memory_of(model, replace(serving, sequences_max=1024), card, Division(1, 1))
    assert few.activations.bytes < many.activations.bytes
