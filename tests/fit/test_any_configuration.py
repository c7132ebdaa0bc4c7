"""Whatever a configuration says, it is answered or refused; and more is never said to need less."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.advise.fit.ask import ask
from gpufleet.fit.answer import FitVerdict
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import find_cards, models
from gpufleet.fit.config import ModelConfig
from gpufleet.fit.engines import engine_named
from gpufleet.fit.facts import Origin
from gpufleet.fit.formats import FORMATS
from gpufleet.fit.options import Options
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.search import answer
from gpufleet.model.model_errors import InputError

NUMBERS = [
    field.name
    for field in msgspec.structs.fields(ModelConfig)
    if field.type == int | None and field.name != "num_hidden_layers"
]
SIZES = st.sampled_from([-1, 0, 1, 2, 3, 7, 8, 64, 128, 1000, 4096, 50_000, 1 << 20])
NAMES = [entry.name for entry in models()]


@given(
    st.dictionaries(st.sampled_from(NUMBERS), SIZES, min_size=3),
    st.integers(-1, 12),
    st.sampled_from(["", "llama", "gemma3_text", "gpt_oss", "llama4_text", "phi", "qwen2"]),
    st.sampled_from(list(FORMATS)),
)
def test_any_configuration_is_answered_or_refused(
    sizes: dict[str, int], layers: int, kind: str, form: str
) -> None:
    usual = {"hidden_size": 4096, "vocab_size": 32000, "num_attention_heads": 32, "intermediate_size": 11008}
    written = {"model_type": kind, "num_hidden_layers": layers, **usual, **sizes}
    try:
        facts = facts_of("any", msgspec.convert(written, ModelConfig))
    except InputError:
        return
    serving = Serving(2048, 2, FORMATS[form], "fp8", engine_named("vllm"), 0.9)
    found = answer(Model(facts, Origin.CONFIG, "here"), serving, find_cards("l4"), proposes=True)
    assert found.cards[0].verdict in set(FitVerdict)
    msgspec.json.encode(found)


@given(st.sampled_from(NAMES), st.sampled_from(["l4", "a100-40", "h100-80", "mi300x"]), st.integers(1, 16))
def test_more_sequences_and_longer_ones_never_need_fewer_gpus(model: str, gpu: str, batch: int) -> None:
    few, many = (ask(Options(model, (gpu,), batch=one, context=2048)).cards[0] for one in (batch, 2 * batch))
    if many.verdict is FitVerdict.YES:
        assert few.verdict is FitVerdict.YES
        assert few.gpus <= many.gpus


@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_the_catalogue_is_answered_for_every_card(name: str) -> None:
    for card in ask(Options(name)).cards:
        memory = card.memory
        assert memory.kv_pool.low_bytes <= memory.kv_pool.bytes <= memory.kv_pool.high_bytes
        assert memory.weights.low_bytes <= memory.weights.bytes <= memory.weights.high_bytes
        if card.verdict is FitVerdict.YES:
            assert card.sequences_min >= 1
            assert not card.reasons
        else:
            assert card.reasons
