"""What a token keeps, by hand from the configurations, and what it becomes on several GPUs."""

import pytest

from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import find_model
from gpufleet.fit.facts import ModelFacts
from gpufleet.fit.kv_cache import CacheLayout, element_bytes, model_token_bytes, sequence_bytes


def facts(name: str) -> ModelFacts:
    return facts_of(name, find_model(name).config)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 2 (keys and values) x layers x heads of keys and values x size of a head x 2 bytes
        ("llama-2-7b", 2 * 32 * 32 * 128 * 2),
        ("llama-3.1-8b", 2 * 32 * 8 * 128 * 2),
        ("llama-3.3-70b", 2 * 80 * 8 * 128 * 2),
        ("qwen2.5-7b", 2 * 28 * 4 * 128 * 2),
        ("qwen3-30b-a3b", 2 * 48 * 4 * 128 * 2),
        ("gemma-3-27b", 2 * 62 * 16 * 128 * 2),
        # Latent: layers x (compressed 512 + rotary 64) x 2 bytes
        ("deepseek-v3", 61 * 576 * 2),
        ("deepseek-v2-lite", 27 * 576 * 2),
        # and an indexer's key of 128 bytes with a scale of 4
        ("deepseek-v3.2", 61 * (576 * 2 + 132)),
        # Hybrids keep keys only in every fourth of 48 layers, in 4 of 32 and in 4 of 56.
        ("qwen3-next-80b-a3b", 2 * 12 * 2 * 256 * 2),
        ("jamba-1.5-mini", 2 * 4 * 8 * 128 * 2),
        ("nemotron-nano-9b-v2", 2 * 4 * 8 * 128 * 2),
    ],
)
def test_a_token_keeps_so_many_bytes(name: str, expected: int) -> None:
    assert model_token_bytes(facts(name), 2.0) == expected


def test_fp8_halves_it() -> None:
    assert model_token_bytes(facts("llama-3.1-8b"), 1.0) == 2 * 32 * 8 * 128


def test_int8_halves_it_but_for_its_scales() -> None:
    assert model_token_bytes(facts("llama-3.1-8b"), element_bytes("int8")) == 2 * 32 * 8 * (128 + 4)


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1), (32, 1)])
def test_heads_are_dealt_out_and_repeated_when_there_are_too_few(tensor: int, heads: int) -> None:
    layout = CacheLayout(2.0, 16, 8192, is_grouped=True)
    assert sequence_bytes(facts("llama-3.1-8b"), 16, tensor, 1, layout) == 16 * 2 * 32 * heads * 128 * 2


def test_compressed_keys_are_whole_on_every_gpu() -> None:
    layout = CacheLayout(2.0, 16, 8192, is_grouped=True)
    assert sequence_bytes(facts("deepseek-v3"), 16, 8, 1, layout) == 16 * 61 * 576 * 2


def test_a_window_stops_growing() -> None:
    """26 layers of Gemma 3 1B, every sixth sees everything: 22 with a window of 512."""
    layout = CacheLayout(2.0, 1, 1, is_grouped=False)
    per_layer = 2 * 1 * 256 * 2
    # The window, what is read beside it (one token), one block (one token) at the edge.
    expected = per_layer * (4 * 32768 + 22 * (512 + 1))
    assert sequence_bytes(facts("gemma-3-1b"), 32768, 1, 1, layout) == expected


def test_a_state_does_not_grow() -> None:
    layout = CacheLayout(2.0, 1, 1, is_grouped=False)
    short = sequence_bytes(facts("qwen3-next-80b-a3b"), 1000, 1, 1, layout)
    longer = sequence_bytes(facts("qwen3-next-80b-a3b"), 2000, 1, 1, layout)
    assert longer - short == 1000 * 2 * 12 * 2 * 256 * 2
    # 36 layers x (32 heads x 128 x 128 x 4 bytes + 3 x 8192 channels x 2 bytes)
    assert short - (longer - short) == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)


def test_stages_hold_their_own_layers_only() -> None:
    layout = CacheLayout(2.0, 16, 8192, is_grouped=True)
    whole = sequence_bytes(facts("llama-3.1-8b"), 8192, 1, 1, layout)
    assert sequence_bytes(facts("llama-3.1-8b"), 8192, 1, 2, layout) == whole / 2


def test_blocks_are_rounded_up() -> None:
    layout = CacheLayout(2.0, 16, 8192, is_grouped=True)
    per_token = 2 * 32 * 8 * 128 * 2
    assert sequence_bytes(facts("llama-3.1-8b"), 17, 1, 1, layout) == 32 * per_token
