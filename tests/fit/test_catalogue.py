"""The catalogue: every entry counts up to what its publisher states, and says on what it rests."""

import json
import re
from dataclasses import replace
from importlib import resources

import msgspec
import pytest

from gpufleet.advise.fit.ask import model_of
from gpufleet.cli.fit_output import lines
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.basis import Basis
from gpufleet.fit.catalogue import ModelEntry, cards, find_cards, find_model, models, ollama_names
from gpufleet.fit.formats import format_named
from gpufleet.fit.options import Options, serving_of
from gpufleet.fit.search import answer
from gpufleet.fit.shapes import active_parameters, parameters
from gpufleet.fit.weights import total_bytes
from gpufleet.model.model_errors import InputError

DAY = re.compile(r"20[0-9]{2}-[0-9]{2}(-[0-9]{2})?")
STATED_TO_A_BILLION = 0.006
"""Of models whose publisher only says "80B" no more can be asked."""


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry.name)
def test_parameters_are_those_that_the_publisher_states(entry: ModelEntry) -> None:
    counted = parameters(facts_of(entry.name, entry.config))
    exact = entry.parameters % 10_000_000 != 0
    assert counted == pytest.approx(entry.parameters, rel=0.0025 if exact else STATED_TO_A_BILLION)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # As the publishers state them: total with embeddings, active for one token.
        ("deepseek-v3", 37),
        ("qwen3-30b-a3b", 3.3),
        ("qwen3-235b-a22b", 22),
        ("mixtral-8x7b", 12.9),
        ("gpt-oss-120b", 5.1),
        ("kimi-k2", 32),
    ],
)
def test_active_parameters_are_those_that_the_publisher_states(name: str, billions: float) -> None:
    counted = active_parameters(facts_of(name, find_model(name).config)) / 1e9
    assert counted == pytest.approx(billions, rel=0.08)


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        # Sizes of the files on the hub, in 10^9 bytes.
        ("kimi-k2-thinking", 594),
        ("gpt-oss-20b", 13.8),
        ("gpt-oss-120b", 65.2),
        ("llama-3.3-70b", 141.1),
    ],
)
def test_published_weights_are_as_large_as_their_files(name: str, gigabytes: float) -> None:
    facts = facts_of(name, find_model(name).config)
    assert total_bytes(facts, facts.native) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_it_is_as_large_as_promised() -> None:
    assert len(models()) >= 60
    assert len(cards()) >= 40
    assert all(card.gpu.memory_mib for card in cards())


@pytest.mark.parametrize("name", ["models.json", "cards.json"])
def test_every_fact_says_where_a_copy_was_read_or_that_none_was(name: str) -> None:
    entries = json.loads((resources.files("gpufleet.fit") / "data" / name).read_bytes())
    for entry in entries:
        assert DAY.match(entry["date"])
        found = [value for field, value in entry.items() if field.endswith("_basis")]
        assert len(found) == (2 if name == "models.json" else 3), entry
        for basis in found:
            assert set(basis) in ({"checked", "read"}, {"unchecked"}), entry
            assert all(basis.values())
            assert DAY.fullmatch(basis.get("checked", "2026-11-22"))


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"checked": "2026-11-22"},
        {"read": "here"},
        {"checked": "2026-11-22", "read": "here", "unchecked": "x"},
    ],
)
def test_a_claim_with_half_a_source_is_no_basis(claim: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(claim, Basis)


def test_the_answer_says_whether_the_model_was_checked() -> None:
    # One entry of each kind, built here: which entries of the catalogue are which changes as they are read.
    checked, unchecked = Basis(checked="2026-11-22", read="a copy"), Basis(unchecked="from memory")
    for basis, shown in ((checked, "checked 2026-11-22 in a copy"), (unchecked, "unchecked: from memory")):
        model = replace(model_of("llama-3.1-8b"), basis=basis)
        found = answer(model, serving_of(Options("llama-3.1-8b"), model), find_cards("l4"), proposes=False)
        assert found.model.basis == basis
        assert f"  facts        {shown}" in list(lines(found, detailed=False))


def test_a_program_never_finds_more_memory_than_the_card_has() -> None:
    for card in cards():
        nominal = card.gpu.memory_mib
        assert nominal is not None
        assert 0.90 * nominal < card.usable_mib < nominal, card.model


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama-3.3-70b", "llama-3.3-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("gemma-3-27b-it", "gemma-3-27b"),
        ("DeepSeek-V3-0324", "deepseek-v3"),
    ],
)
def test_a_model_is_found_however_it_is_written(text: str, name: str) -> None:
    assert find_model(text).name == name


def test_names_of_ollama_are_known_with_the_weights_that_it_fetches() -> None:
    assert {one.name for one in models()} >= set(ollama_names().values())
    for name, native in (("llama3.1:8b", "q4_k_m"), ("gpt-oss:20b", "mxfp4")):
        model = model_of(name)
        serving = serving_of(Options(name), model)
        assert (serving.form.name, serving.engine.name) == (native, "llama.cpp")
    assert serving_of(Options("", weights="bf16"), model_of("llama3.1:8b")).engine.name == "vllm"


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"perhaps llama-3\.3-70b"):
        find_model("lama-3.3-70b")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b with --weights awq"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b with --weights fp8"),
        ("unsloth/Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b with --weights nf4"),
        ("qwen3-coder", "qwen3-coder-480b-a35b, qwen3-coder-30b-a3b"),
        ("mistral-large", "mistral-large-123b"),
    ],
)
def test_what_was_perhaps_meant_is_suggested(text: str, suggestion: str) -> None:
    with pytest.raises(InputError, match=re.escape(suggestion)):
        find_model(text)


@pytest.mark.parametrize(
    ("said", "meant"), [("int4", "w4a16"), ("Q4_K_M", "q4_k_m"), ("bfloat16", "bf16"), ("4bit", "nf4")]
)
def test_formats_are_found_by_other_words(said: str, meant: str) -> None:
    assert format_named(said).name == meant


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("h100-80", {"H100-80GB"}),
        ("H100-SXM5", {"H100-80GB", "H100-94GB"}),
        ("A100-80GB-PCIe", {"A100-80GB"}),
        ("4090", {"RTX-4090"}),
        ("rtx-4060", {"RTX-4060"}),
        ("3090", {"RTX-3090"}),
        ("3090 ti", {"RTX-3090-Ti"}),
        ("GB200 NVL72", {"GB200"}),
        ("NVIDIA-H100-80GB-HBM3", {"H100-80GB"}),
        ("h100", {"H100-80GB", "H100-94GB"}),
        ("a100-40", {"A100-40GB"}),
        ("l4", {"L4"}),
        ("mi300x", {"MI300X"}),
        ("rx-9060-xt-16", {"RX-9060-XT-16GB"}),
        ("RX 9060 XT", {"RX-9060-XT-8GB", "RX-9060-XT-16GB"}),
    ],
)
def test_a_card_is_found_however_it_is_written(text: str, found: set[str]) -> None:
    assert {card.model for card in find_cards(text)} == found


def test_an_unknown_card_is_refused() -> None:
    with pytest.raises(InputError, match="no such GPU"):
        find_cards("h1000-80")
