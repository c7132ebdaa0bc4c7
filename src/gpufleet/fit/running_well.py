"""Which models run well on given cards: those that surely fit, with the speed that bandwidth lets expect.

Two ways are tried of each model of the catalogue: vLLM with the published weights, and Ollama, which is
llama.cpp, with the weights that it fetches. The tokens a second are an estimate: no server reaches the bound
that memory bandwidth sets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.catalogue import CardEntry, ModelEntry, models, ollama_names
from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.fit.search import on_card

WELL_TOKENS_PER_S = 10.0
"""As fast as people read; what is slower by the bound is slower still."""

VLLM, OLLAMA = "vllm", "ollama"


class WayToRun(msgspec.Struct, frozen=True):
    """One way to run a model: ``name`` is what the program is given to fetch it."""

    program: str
    name: str
    weights: str
    gpu: str
    gpus: int
    estimated_tokens_per_s: float


class RunnableModel(msgspec.Struct, frozen=True):
    """A model and the ways in which it runs well."""

    model: str
    parameters: int
    hub: str
    ways: tuple[WayToRun, ...]


def runnable_models(cards: Sequence[CardEntry], options: Options) -> tuple[RunnableModel, ...]:
    """The models that run well on one of the cards, the largest first."""
    by_model = {entry: name for name, entry in ollama_names().items()}
    found = []
    for entry in models():
        ways = tuple(_ways(entry, by_model.get(entry.name, ""), cards, options))
        if ways:
            found.append(RunnableModel(entry.name, entry.parameters, entry.hub, ways))
    return tuple(sorted(found, key=lambda one: (-one.parameters, one.model)))


def _ways(entry: ModelEntry, ollama: str, cards: Iterable[CardEntry], options: Options) -> Iterator[WayToRun]:
    for program, name, asked in ((VLLM, entry.hub, entry.name), (OLLAMA, ollama, ollama)):
        if not asked:
            continue
        model = catalogue_model(asked)
        serving = serving_of(replace(options, model=asked), model).on_one_machine
        tried = [on_card(model, serving, card, proposes=False) for card in cards]
        best = max(filter(_runs_well, tried), key=_speed, default=None)
        if best is not None:
            yield WayToRun(program, name, serving.form.name, best.gpu, best.gpus, _speed(best))


def _speed(found: CardFit) -> float:
    return found.speed.empty_tokens_per_s


def _runs_well(found: CardFit) -> bool:
    return found.verdict is FitVerdict.YES and _speed(found) >= WELL_TOKENS_PER_S
