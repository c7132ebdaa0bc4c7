"""The answers: what fits where, what never does and why, and that proposals keep their word."""

import re

import pytest

from gpufleet.advise.fit.ask import ask
from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.options import Options
from gpufleet.model.model_errors import InputError


def one(model: str, gpu: str, **words: object) -> CardFit:
    (card,) = ask(Options(model, (gpu,), **words)).cards  # type: ignore[arg-type]
    return card


@pytest.mark.parametrize(
    ("model", "gpu", "gpus"),
    [
        ("llama-3.1-8b", "l4", 1),
        ("llama-3.3-70b", "h100-80", 4),
        ("llama-3.3-70b", "h200", 2),
        ("llama-3.3-70b", "mi300x", 1),
        ("qwen3-30b-a3b", "h100-80", 1),
        ("deepseek-v3", "h200", 8),
        ("deepseek-v3", "h100-80", 16),
        ("mixtral-8x7b", "a100-80", 2),
        ("llama-3.1-405b", "h100-80", 16),
    ],
)
def test_it_takes_as_many_gpus_as_people_run_it_on(model: str, gpu: str, gpus: int) -> None:
    found = one(model, gpu)
    assert (found.verdict, found.gpus) == (FitVerdict.YES, gpus)


def test_what_one_version_runs_and_another_does_not_is_unsure() -> None:
    """gpt-oss-120b on one H100 starts with vLLM 0.11 and not with 0.14 (vllm#33155)."""
    assert one("gpt-oss-120b", "h100-80", tensor_parallel=1).verdict is FitVerdict.UNSURE


@pytest.mark.parametrize(
    ("model", "gpu", "tensor", "reason"),
    [
        ("qwen2.5-7b", "h100-80", 3, "28 heads cannot be divided among 3 GPUs"),
        ("qwen2.5-7b", "l4", 8, "28 heads cannot be divided among 8 GPUs"),
        ("phi-4", "l4", 8, "10 heads of keys and values cannot be dealt to 8 GPUs"),
        ("llama-3.3-70b", "h100-80", 1, "the weights alone need 131.4 GiB"),
    ],
)
def test_what_the_engine_refuses_never_fits(model: str, gpu: str, tensor: int, reason: str) -> None:
    found = one(model, gpu, tensor_parallel=tensor)
    assert found.verdict is FitVerdict.NO
    assert any(reason in sentence for sentence in found.reasons)


def test_weights_that_share_a_scale_are_not_cut_apart() -> None:
    """Experts of width 768 on 4 GPUs are 192 wide, which is no multiple of 128."""
    found = one("qwen3-30b-a3b", "l40s", tensor_parallel=4, weights="fp8-block")
    assert found.verdict is FitVerdict.NO
    assert "share a scale" in found.reasons[0]


def test_more_tokens_than_the_model_was_made_for_are_refused() -> None:
    found = one("llama-3-8b", "h100-80", context=16384)
    assert found.verdict is FitVerdict.NO
    assert "made for 8192 tokens" in found.reasons[0]


def test_a_card_without_kernels_is_refused() -> None:
    assert "compute capability" in one("gpt-oss-20b", "t4").reasons[0]
    assert one("llama-3.2-1b", "p40").verdict is FitVerdict.NO


def test_a_yes_holds_in_the_worst_case() -> None:
    for card in ask(Options("qwen2.5-14b")).cards:
        enough = card.memory.kv_pool.low_bytes >= card.memory.kv_needed_bytes
        assert (card.verdict is FitVerdict.YES) <= enough


def test_every_proposal_keeps_its_word() -> None:
    """The 27.5 GiB of Qwen 2.5 14B do not fit on an L4; each proposal, asked for, does."""
    found = one("qwen2.5-14b", "l4", tensor_parallel=1, stages=1, context=16384)
    assert found.verdict is FitVerdict.NO
    assert found.changes
    for change in found.changes:
        words: dict[str, object] = {"tensor_parallel": 1, "stages": 1, "context": 16384}
        if "more GPUs" in change:
            words = {"context": 16384}
        for option, value in re.findall(r"--(\w+) (\w+)", change):
            words[option] = int(value) if value.isdigit() else value
        assert one("qwen2.5-14b", "l4", **words).verdict is FitVerdict.YES, change


def test_what_is_unsure_may_leave_more_beside_the_model() -> None:
    """Qwen3 32B on one H100 has room for one sequence of 28k tokens as expected, and not at worst."""
    found = one("qwen3-32b", "h100-80", tensor_parallel=1, context=28672)
    assert found.verdict is FitVerdict.UNSURE
    (more,) = [change for change in found.changes if "--utilization" in change]
    utilisation = float(more.rpartition(" ")[2])
    again = one("qwen3-32b", "h100-80", tensor_parallel=1, context=28672, utilisation=utilisation)
    assert again.verdict is FitVerdict.YES


def test_speed_is_bandwidth_over_bytes() -> None:
    """Llama 3.1 8B: all but the embedding's 0.525 B of 8.03 B parameters, 2 bytes each, at 3350 GB/s."""
    found = one("llama-3.1-8b", "h100-80")
    assert found.speed.empty_tokens_per_s == pytest.approx(3350e9 / (2 * (8.030e9 - 0.525e9)), rel=0.001)
    assert found.speed.full_tokens_per_s < found.speed.empty_tokens_per_s


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (Options("llama-3.1-8b", weights="q9"), "--weights"),
        (Options("llama-3.1-8b", kv="int3"), "--kv"),
        (Options("llama-3.1-8b", engine="triton"), "--engine"),
        (Options("nothing-like-it"), "MODEL"),
    ],
)
def test_unknown_words_are_refused_with_the_known_ones(words: Options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(words)
