"""No false yes: what is known to fail, or is not known, is unsure, and the answer says what decides it."""

from dataclasses import replace

import msgspec
import pytest

from gpufleet.advise.fit.ask import ask
from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import CardEntry, find_cards, find_model
from gpufleet.fit.engines import Limits, context_memory, engine_named, graphs, needed_beside, other_programs
from gpufleet.fit.facts import LatentAttention
from gpufleet.fit.kv_cache import CacheLayout, sequence_bytes
from gpufleet.fit.options import Options
from gpufleet.fit.ranges import GIB


def one(model: str, gpu: str, **words: object) -> CardFit:
    (card,) = ask(Options(model, (gpu,), **words)).cards  # type: ignore[arg-type]
    return card


def card_named(name: str) -> CardEntry:
    return find_cards(name)[0]


def test_a_yes_a_no_and_what_lies_between_are_three_answers() -> None:
    """Only the yes has neither a reason nor a decider; only what is unsure has a decider."""
    for card in ask(Options("qwen3-32b")).cards:
        memory, beside_bytes = card.memory, card.memory.usable_bytes - card.memory.budget_bytes
        holds_at_worst = memory.kv_pool.low_bytes >= memory.kv_needed_bytes
        has_room_beside = memory.beside.high_bytes <= beside_bytes
        assert (card.verdict is FitVerdict.YES) <= (holds_at_worst and has_room_beside)
        assert (card.verdict is FitVerdict.UNSURE) == bool(card.decided_by)
        assert (card.verdict is FitVerdict.YES) == (not card.reasons)


def test_no_room_beside_the_pool_is_unsure() -> None:
    """gpt-oss-20b on an H100 at a utilisation of 0.95 ends in the sampler's warm-up; at 0.9 it runs."""
    found = one("gpt-oss-20b", "h100-80", utilisation=0.95)
    assert found.verdict is FitVerdict.UNSURE
    assert "warm-up" in found.reasons[0]
    assert "--max-num-seqs" in found.decided_by[0]
    assert one("gpt-oss-20b", "h100-80", utilisation=0.9).verdict is FitVerdict.YES


def test_no_room_at_all_beside_the_pool_is_a_no() -> None:
    """Engines that record graphs after the pool was sized need at least some memory for them."""
    found = one("gpt-oss-20b", "h100-80", engine="vllm-0.16", utilisation=1.0)
    assert found.verdict is FitVerdict.NO
    assert "graphs" in found.reasons[0]


def test_no_proposal_leaves_too_little_beside_the_pool() -> None:
    changes = one("gpt-oss-20b", "h100-80", utilisation=0.95).changes
    assert changes
    assert not any("--utilization" in change for change in changes)


@pytest.mark.parametrize(
    ("gpu", "gib"), [("h100-80", 0.2), ("rtx-4090", 0.5), ("a2", 0.2), ("rx-9060-xt-16", 1.0)]
)
def test_other_programs_may_hold_memory_before_the_engine_starts(gpu: str, gib: float) -> None:
    assert other_programs(card_named(gpu)).high_bytes == pytest.approx(gib * GIB)


def test_a_small_card_with_a_display_may_lack_a_gib() -> None:
    small = msgspec.structs.replace(card_named("rtx-4090"), usable_mib=8188)
    assert other_programs(small).high_bytes == GIB
    limits, facts = Limits(256, 2048), facts_of("qwen2.5-1.5b", find_model("qwen2.5-1.5b").config)
    engine = engine_named("vllm")
    beside = needed_beside(engine, facts, limits, small, graphs(engine, facts))
    assert beside.high_bytes > 0.1 * small.usable_bytes


def test_a_checkpoint_known_by_its_name_may_keep_its_attention_in_16_bits() -> None:
    """Llama 3.1 8B has 32 layers of 2 x 4096 x 4096 + 2 x 4096 x 1024 weights of attention: at a byte more
    each, 1.25 GiB; and the first and last of 32 feed-forward layers of 3 x 4096 x 14336: 0.33 GiB.
    """
    named = one("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "l4").memory.weights
    even = one("llama-3.1-8b", "l4", weights="fp8").memory.weights
    assert named.bytes == even.bytes
    # The even format's worst case has 1.5 % above what is counted, the uneven one's half a percent of more.
    assert (named.high_bytes - 1.005 * even.bytes) / GIB == pytest.approx(1.25 + 0.33, rel=0.01)


def test_what_is_unsure_by_the_checkpoints_parts_is_decided_by_its_files() -> None:
    """14.6 GiB of 24 are for weights where all are in 4 bits, and 21.5 where attention is not."""
    found = one("nvidia/Qwen3-32B-NVFP4", "l4", tensor_parallel=1, batch=1, context=1024)
    assert found.verdict is FitVerdict.UNSURE
    assert "config.json" in found.decided_by[0]


def test_a_configuration_leaves_nothing_open() -> None:
    """The files of Kimi K2 Thinking say what they keep."""
    assert not facts_of("k2", find_model("kimi-k2-thinking").config).native.is_uneven


def test_buffers_of_links_are_smaller_without_nvlink() -> None:
    engine = engine_named("vllm")
    assert context_memory(engine, 4, card_named("h100-80")).bytes == pytest.approx(2.1 * GIB)
    assert context_memory(engine, 4, card_named("l40s")).bytes == pytest.approx(0.75 * GIB)
    both = [context_memory(engine, 4, card_named(gpu)).high_bytes for gpu in ("h100-80", "l40s")]
    assert both[0] == both[1]


def test_vllm_before_0_11_keeps_every_token_of_layers_with_a_window() -> None:
    """Of 62 layers of Gemma 3 27B 52 have a window of 1024 tokens; 32k tokens of 16 heads of 128 need
    2 x 16 x 128 x 2 bytes x 62 layers a token: 15.5 GiB.
    """
    found = one("gemma-3-27b", "h100-80", engine="vllm-0.10", context=32768, tensor_parallel=1)
    assert found.memory.sequence_bytes / GIB == pytest.approx(15.5, rel=0.001)
    later = one("gemma-3-27b", "h100-80", engine="vllm-0.16", context=32768, tensor_parallel=1)
    assert later.memory.sequence_bytes < found.memory.sequence_bytes / 2


def test_the_largest_picture_counts_in_the_trial_run() -> None:
    """vLLM 0.8.3 held 2.51 GiB in the trial run of Qwen2.5-VL 72B on four A100 (vllm#16570), whose encoder is
    that of the 7B.
    """
    memory = one("qwen2.5-vl-7b", "l4", tensor_parallel=1).memory
    assert memory.activations.low_bytes < 2.51 * GIB < memory.activations.high_bytes
    assert "picture" in memory.activations.basis


def test_old_files_of_deepseek_keep_the_keys_of_every_head() -> None:
    """DeepSeek V2 Lite: 16 heads of 128 + 64 + 128 numbers of 2 bytes in 27 layers, against 512 + 64."""
    facts = facts_of("lite", find_model("deepseek-v2-lite").config)
    old = tuple(
        replace(layer, mixer=replace(layer.mixer, keeps_heads=True))
        for layer in facts.layers
        if isinstance(layer.mixer, LatentAttention)
    )
    layout = CacheLayout(2, 1, 1, is_grouped=False)
    assert sequence_bytes(facts, 1000, 1, 1, layout) == 1000 * 27 * 2 * (512 + 64)
    assert sequence_bytes(replace(facts, layers=old), 1000, 1, 1, layout) == 1000 * 27 * 2 * 16 * 320
