"""From the options of a command line to an answer: which model, which cards, and what they leave open."""

from collections.abc import Sequence
from typing import Any

from gpufleet.advise.fit.local_files import is_local_path, model_of_path
from gpufleet.fit.answer import Answer, TrainingAnswer
from gpufleet.fit.catalogue import CardEntry, cards, find_cards
from gpufleet.fit.manifest import manifests
from gpufleet.fit.mixed_cards import SEPARATOR, mixed
from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.fit.question import Model
from gpufleet.fit.search import about, answer, on_card
from gpufleet.fit.training import Course, train
from gpufleet.model.model_errors import InputError

TRAINING_CONTEXT = 4096
"""Tokens of a sequence in training, where the command does not say how many."""


def ask(options: Options) -> Answer:
    """The answer; raises InputError in the terms of the command line."""
    model = model_of(options.model, from_hub=options.from_hub)
    chosen = cards_of(options.gpus)
    return answer(model, serving_of(options, model), chosen, proposes=bool(options.gpus))


def ask_manifest(options: Options) -> list[dict[str, Any]]:
    """What runs the model on the one card that was named; raises InputError where that cannot be."""
    model = model_of(options.model, from_hub=options.from_hub)
    chosen = cards_of(options.gpus) if options.gpus else ()
    if len(chosen) != 1:
        raise InputError(
            "a manifest is for one card",
            field="--gpu",
            value=[card.model for card in chosen] or None,
            expected="one --gpu that names one card, such as h100-80",
        )
    serving = serving_of(options, model)
    return manifests(model, serving, chosen[0], on_card(model, serving, chosen[0], proposes=False))


def ask_training(
    options: Options,
    method: str,
    zero: int,
    rank: int,
    *,
    trains_tables: bool = False,
    recomputes: bool = True,
    precision: str = "mixed",
    fuses_loss: bool = False,
) -> TrainingAnswer:
    """The answer about training; raises InputError in the terms of the command line."""
    model = model_of(options.model, from_hub=options.from_hub)
    most = model.facts.context_max or TRAINING_CONTEXT
    context = options.context or min(TRAINING_CONTEXT, most)
    course = Course(
        method, context, options.batch, zero, rank, trains_tables, recomputes, precision, fuses_loss
    )
    return train(model, about(model), course, cards_of(options.gpus))


def model_of(text: str, *, from_hub: bool = False) -> Model:
    """The model by its name in the catalogue, from files on this machine, or from the hub if allowed."""
    if is_local_path(text):
        return model_of_path(text)
    if from_hub:
        from gpufleet.advise.fit.hub import model_of_hub

        return model_of_hub(text)
    return catalogue_model(text)


def cards_of(names: Sequence[str]) -> tuple[CardEntry, ...]:
    """The cards named, each once, several kinds together as one; all that are known, if none is named."""
    if not names:
        return cards()
    found: dict[str, CardEntry] = {}
    for name in names:
        kinds = (mixed(name),) if SEPARATOR in name else find_cards(name)
        found.update((card.model, card) for card in kinds)
    return tuple(found.values())
