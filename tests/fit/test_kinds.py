"""Each kind of question has a yes, a no and a case between, where the answer says what decides it.

The cases come from sweeps over contexts, utilisations and cards; what an answer counts is held against
arithmetic and measurements in the other files.
"""

from collections.abc import Mapping

import pytest

from gpufleet.advise.fit.ask import ask, cards_of, model_of
from gpufleet.fit.answer import FitVerdict
from gpufleet.fit.options import Options
from gpufleet.fit.training import Course, memory_of, verdict_of

YES, UNSURE, NO = FitVerdict.YES, FitVerdict.UNSURE, FitVerdict.NO

ALONE = {"tensor_parallel": 1, "stages": 1}
PAIR = {"tensor_parallel": 2, "stages": 1}

KINDS: dict[str, list[tuple[FitVerdict, str, str, Mapping[str, object]]]] = {
    "graphs and the sampler's warm-up beside the pool": [
        (YES, "gpt-oss-20b", "h100-80", {**ALONE, "utilisation": 0.9}),
        (UNSURE, "gpt-oss-20b", "h100-80", {**ALONE, "utilisation": 0.95}),
        (NO, "gpt-oss-20b", "h100-80", {"engine": "vllm-0.16", "utilisation": 1.0}),
    ],
    "a checkpoint known by its name": [
        (YES, "nvidia/Qwen3-32B-NVFP4", "h100-80", {**ALONE, "context": 32768}),
        (UNSURE, "nvidia/Qwen3-32B-NVFP4", "l4", {**ALONE, "context": 1024}),
        (NO, "nvidia/Qwen3-32B-NVFP4", "l4", {**ALONE, "context": 32768}),
    ],
    "buffers of links, with NVLink": [
        (YES, "llama-3.3-70b", "a100-40", {**PAIR, "weights": "awq", "context": 65536}),
        (UNSURE, "llama-3.3-70b", "a100-40", {**PAIR, "weights": "awq", "context": 98304}),
        (NO, "llama-3.3-70b", "a100-40", {**PAIR, "weights": "awq", "context": 131072}),
    ],
    "buffers of links, without": [
        (YES, "llama-3.3-70b", "l40s", {**PAIR, "weights": "awq", "context": 98304}),
        (UNSURE, "llama-3.3-70b", "l40s", {**PAIR, "weights": "awq", "context": 131072}),
        (NO, "llama-3.3-70b", "l40s", {**PAIR, "weights": "awq", "context": 196608}),
    ],
    "an engine before pools of several kinds": [
        (YES, "gemma-3-27b", "h100-80", {**ALONE, "engine": "vllm-0.10", "context": 12288}),
        (UNSURE, "gemma-3-27b", "h100-80", {**ALONE, "engine": "vllm-0.10", "context": 24576}),
        (NO, "gemma-3-27b", "h100-80", {**ALONE, "engine": "vllm-0.10", "context": 32768}),
        (YES, "gemma-3-27b", "h100-80", {**ALONE, "engine": "vllm-0.16", "context": 32768}),
    ],
    "the largest picture of a trial run": [
        (YES, "qwen2.5-vl-7b", "rtx-3090-ti", {**ALONE, "context": 8192}),
        (UNSURE, "qwen2.5-vl-7b", "l4", {**ALONE, "context": 8192}),
        (NO, "qwen2.5-vl-7b", "rtx-4060", {**ALONE, "context": 8192}),
    ],
    "a small card": [
        (YES, "llama3.1:8b", "rtx-4060", {}),
        (UNSURE, "qwen2.5-3b", "rtx-4060", ALONE),
        (NO, "qwen3-8b", "rtx-4060", ALONE),
    ],
    "a card with a display and 16 GB": [
        (YES, "qwen2.5:14b", "rx-9060-xt-16", ALONE),
        (UNSURE, "gpt-oss:20b", "rx-9060-xt-16", ALONE),
        (NO, "qwen3:32b", "rx-9060-xt-16", ALONE),
    ],
    "keys and values in int8": [
        (YES, "llama-3.1-8b", "l4", {**ALONE, "kv": "int8", "context": 32768}),
        (UNSURE, "llama-3.1-8b", "l4", {**ALONE, "kv": "int8", "context": 65536}),
        (NO, "llama-3.1-8b", "l4", {**ALONE, "kv": "int8", "context": 98304}),
        (NO, "llama-3.1-8b", "l4", {**ALONE, "context": 65536}),
    ],
}

CASES = [
    pytest.param(*case, id=f"{kind}: {case[0].value}") for kind, cases in KINDS.items() for case in cases
]


@pytest.mark.parametrize(("verdict", "model", "gpu", "words"), CASES)
def test_each_kind_has_a_yes_a_no_and_a_case_between(
    verdict: FitVerdict, model: str, gpu: str, words: Mapping[str, object]
) -> None:
    (found,) = ask(Options(model, (gpu,), **words)).cards  # type: ignore[arg-type]
    assert found.verdict is verdict
    assert bool(found.decided_by) == (verdict is UNSURE)


@pytest.mark.parametrize(
    ("method", "context", "verdict"),
    [
        ("lora", 512, YES),
        ("lora", 24576, YES),
        ("lora", 65536, UNSURE),
        ("lora", 196608, NO),
        ("qlora", 24576, YES),
        ("qlora", 131072, UNSURE),
        ("full", 512, UNSURE),
        ("full", 131072, NO),
    ],
)
def test_training_at_short_and_long_contexts(method: str, context: int, verdict: FitVerdict) -> None:
    """Llama 3.1 8B on one A100 of 80 GB: all of Adam in 16 bits has room at short contexts, in 32 none."""
    card = cards_of(["a100-80"])[0]
    memory = memory_of(model_of("llama-3.1-8b"), Course(method, context, 1), card, 1)
    assert verdict_of(memory, card) is verdict
