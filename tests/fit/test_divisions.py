"""Ways of dividing a model beside tensor parallel: experts among replicas, and cards of several kinds."""

import pytest

from gpufleet.advise.fit.ask import ask, cards_of
from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.options import Options
from gpufleet.fit.ranges import GIB
from gpufleet.model.model_errors import InputError


def one(model: str, gpu: str, **words: object) -> CardFit:
    (card,) = ask(Options(model, (gpu,), **words)).cards  # type: ignore[arg-type]
    return card


def test_replicas_share_the_experts_and_repeat_the_rest() -> None:
    """Qwen3 30B A3B has 48 layers with 128 experts of 3 x 2048 x 768 weights: 54.0 GiB of 56.9 in 16 bits. On
    each of 4 replicas are a quarter of those and all of the rest.
    """
    experts = 48 * 128 * 3 * 2048 * 768 * 2 / GIB
    whole = one("qwen3-30b-a3b", "h100-80", tensor_parallel=1).memory.weights.bytes / GIB
    dealt = one("qwen3-30b-a3b", "h100-80", tensor_parallel=1, replicas=4, whole_experts=True)
    assert dealt.gpus == 4
    assert dealt.memory.weights.bytes / GIB == pytest.approx(whole - experts * 3 / 4, rel=0.002)


def test_the_fullest_gpu_has_one_expert_more_where_they_do_not_divide() -> None:
    """Of 128 experts among 3 GPUs one has 43, a third more than 32 of 4."""
    three, four = (
        one("qwen3-30b-a3b", "h100-80", tensor_parallel=1, replicas=count, whole_experts=True).memory.weights
        for count in (3, 4)
    )
    of_one = 48 * 3 * 2048 * 768 * 2
    assert three.bytes - four.bytes == pytest.approx((43 - 32) * of_one, rel=0.001)


def test_each_replica_holds_its_own_sequences() -> None:
    alone = one("qwen3-30b-a3b", "h100-80", tensor_parallel=2, batch=8)
    shared = one("qwen3-30b-a3b", "h100-80", tensor_parallel=2, batch=8, replicas=4)
    assert shared.memory.kv_needed_bytes * 4 == alone.memory.kv_needed_bytes


def test_experts_among_replicas_fit_where_one_gpu_does_not_and_are_unsure_at_the_edge() -> None:
    """The fail, the pass and the case between of one model: one card of 24 GB, eight, and three."""
    asked = {"tensor_parallel": 1, "whole_experts": True, "context": 4096}
    assert one("qwen3-30b-a3b", "l4", replicas=1, **asked).verdict is FitVerdict.NO
    assert one("qwen3-30b-a3b", "l4", replicas=8, **asked).verdict is FitVerdict.YES
    assert one("qwen3-30b-a3b", "l4", replicas=4, **asked).verdict is FitVerdict.UNSURE


def test_a_model_without_experts_has_none_to_deal() -> None:
    found = one("llama-3.1-8b", "h100-80", whole_experts=True)
    assert found.verdict is FitVerdict.NO
    assert "no experts" in found.reasons[0]


def test_of_several_kinds_of_card_the_least_counts() -> None:
    """A 3090 has 24125 MiB and 936 GB/s, a 4090 24084 and 1008."""
    (card,) = cards_of(["2xrtx-3090+rtx-4090"])
    assert card.model == "2 x RTX-3090 + 1 x RTX-4090"
    assert (card.usable_mib, card.bandwidth_gb_s, card.gpus_max) == (24084, 936, 3)
    assert card.capability == pytest.approx(8.6)
    assert card.link.startswith("PCIe")


def test_two_kinds_of_card_fit_fail_or_are_unsure_together() -> None:
    """Qwen3 32B has 61 GiB in 16 bits: too much for an L4 beside a 4090 however it is dealt, and for an A100
    of 40 GB beside one of 80 if it is dealt evenly.
    """
    assert one("qwen3-8b", "l4+rtx-4090").verdict is FitVerdict.YES
    assert one("qwen3-32b", "l4+rtx-4090").verdict is FitVerdict.NO
    uneven = one("llama-3.1-70b", "h200+a100-40")
    assert uneven.verdict is FitVerdict.UNSURE
    assert "--tensor-split" in uneven.decided_by[0]


@pytest.mark.parametrize("text", ["rtx-3090+", "h100+l4", "rtx-4090+mi300x", "0xl4+t4"])
def test_a_mixture_names_each_card_of_one_maker(text: str) -> None:
    with pytest.raises(InputError):
        cards_of([text])
