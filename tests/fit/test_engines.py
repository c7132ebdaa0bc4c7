"""Engines beside vLLM: how they size their pool, by their own sources, and what that makes of an answer."""

import pytest

from gpufleet.advise.fit.ask import ask
from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.options import Options
from gpufleet.fit.ranges import GIB
from gpufleet.fit.static_share import static_share


def one(model: str, gpu: str, **words: object) -> CardFit:
    (card,) = ask(Options(model, (gpu,), **words)).cards  # type: ignore[arg-type]
    return card


@pytest.mark.parametrize(
    ("card_mib", "tensor_parallel", "reserved_mib"),
    [
        # 512 for data of kernels, 1.5 a token of a piece of a prompt, 2 a sequence of a graph, 128 a GPU.
        (22528, 1, 512 + 1.5 * 2048 + 2 * 24 + 128),
        (46068, 2, 512 + 1.5 * 4096 + 2 * 32 + 2 * 128),
        (81080, 1, 512 + 1.5 * 8192 + 2 * 256 + 128),
        (143156, 8, 512 + 1.5 * 8192 + 2 * 512 + 8 * 128),
        (182630, 8, 512 + 1.5 * 16384 + 2 * 512 + 8 * 128),
    ],
)
def test_sglang_takes_what_it_does_not_reserve(
    card_mib: int, tensor_parallel: int, reserved_mib: float
) -> None:
    """The heuristic of SGLang's ServerArgs, by hand."""
    found = static_share(card_mib, tensor_parallel, tensor_parallel, sees=False)[1]
    assert found == pytest.approx((card_mib - reserved_mib) / card_mib, abs=0.0006)


def test_sglang_has_weights_and_pool_in_its_share_and_all_else_beside() -> None:
    memory = one("llama-3.1-8b", "h100-80", engine="sglang").memory
    held = memory.weights.bytes + memory.runtime.bytes + memory.kv_pool.bytes
    assert held == pytest.approx(memory.budget_bytes, rel=1e-6)
    assert memory.beside.bytes > memory.activations.bytes


def test_tensorrt_llm_takes_its_part_of_what_is_left() -> None:
    """0.9 of what weights and the peak leave, as its log says: "fraction is set 0.9"."""
    memory = one("llama-3.1-8b", "h100-80", engine="tensorrt-llm").memory
    held = memory.weights.bytes + memory.activations.bytes + memory.runtime.bytes
    assert memory.kv_pool.bytes == pytest.approx(0.9 * (memory.usable_bytes - held), rel=1e-6)


def test_transformers_has_no_pool_and_reads_all_prompts_at_once() -> None:
    few = one("qwen3-8b", "a100-80", engine="transformers", batch=1, context=4096)
    many = one("qwen3-8b", "a100-80", engine="transformers", batch=8, context=4096)
    assert many.memory.activations.bytes > 4 * few.memory.activations.bytes
    assert many.sequences_min < few.memory.kv_pool.low_bytes // few.memory.sequence_bytes


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "transformers"])
def test_each_engine_has_a_yes_a_no_and_a_case_between(engine: str) -> None:
    """Qwen3 8B has 15.3 GiB of weights: enough room on 80 GB, none on 16 GB; 22 GiB are full at some
    context.
    """
    assert one("qwen3-8b", "a100-80", engine=engine).verdict is FitVerdict.YES
    assert one("qwen3-8b", "a2", engine=engine, tensor_parallel=1, stages=1).verdict is FitVerdict.NO
    found = [
        one("qwen3-8b", "l4", engine=engine, tensor_parallel=1, stages=1, context=context).verdict
        for context in range(1024, 40_960, 1024)
    ]
    assert found == sorted(found, key=[FitVerdict.YES, FitVerdict.UNSURE, FitVerdict.NO].index)
    assert FitVerdict.UNSURE in found


def test_an_engine_that_does_not_know_the_card_refuses() -> None:
    assert "NVIDIA" in one("qwen3-8b", "mi300x", engine="tensorrt-llm").reasons[0]
    assert "capability 8.0" in one("qwen3-8b", "t4", engine="tensorrt-llm").reasons[0]
    assert "capability 7.5" in one("qwen3-8b", "v100-32", engine="sglang").reasons[0]


def test_engines_without_kernels_in_groups_keep_every_token_of_a_window() -> None:
    """Gemma 3 27B: 62 layers of 2 x 16 x 128 x 2 bytes a token."""
    found = one("gemma-3-27b", "h100-80", engine="sglang", context=32768, tensor_parallel=1)
    assert found.memory.sequence_bytes / GIB == pytest.approx(15.5, rel=0.001)
