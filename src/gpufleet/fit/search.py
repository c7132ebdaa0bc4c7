"""The whole question answered: for each card the smallest division that fits, and what would help else."""

from collections.abc import Iterable

import msgspec

from gpufleet.fit.answer import SCHEMA, About, Answer, AskedModel, CardFit, FitVerdict
from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.changes import changes_for, fewer_gpus
from gpufleet.fit.division import divisions
from gpufleet.fit.kv_cache import element_bytes, model_token_bytes
from gpufleet.fit.mixed_cards import less_sure
from gpufleet.fit.placing import placed
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.shapes import active_parameters, parameters
from gpufleet.fit.weights import total_bytes


def answer(model: Model, serving: Serving, cards: Iterable[CardEntry], *, proposes: bool) -> Answer:
    """The answer for these cards; ``proposes``: with what would make a no into a yes."""
    facts = model.facts
    native = model.weights_bytes is not None and serving.form.name == facts.native_format
    weights = model.weights_bytes if native and model.weights_bytes else total_bytes(facts, serving.form)
    return Answer(
        schema=SCHEMA,
        model=about(model),
        asked=AskedModel(
            context=serving.context,
            batch=serving.batch,
            weights=serving.form.name,
            kv=serving.kv,
            engine=serving.engine.name,
            engine_about=serving.engine.about,
            utilisation=serving.utilisation,
        ),
        kv_bytes_per_token=round(model_token_bytes(facts, element_bytes(serving.kv))),
        weights_bytes=round(weights),
        weights_basis="size of the files" if native else f"shapes of the model; {serving.form.basis}",
        cards=tuple(on_card(model, serving, card, proposes=proposes) for card in cards),
        notes=tuple(notes(model)),
    )


def about(model: Model) -> About:
    """The model, as its facts are known."""
    facts = model.facts
    return About(
        name=facts.name,
        origin=model.origin.value,
        source=model.source,
        date=model.date,
        basis=model.basis,
        parameters=parameters(facts),
        active_parameters=active_parameters(facts),
        layers=len(facts.layers),
        context_max=facts.context_max,
        native_weights=facts.native_format,
    )


def on_card(model: Model, serving: Serving, card: CardEntry, *, proposes: bool) -> CardFit:
    """The smallest division of that card that surely fits; else the one that is nearest to it."""
    tried: list[CardFit] = []
    for division in divisions(model.facts, serving, card):
        found = placed(model, serving, card, division)
        if found.verdict is FitVerdict.YES:
            found = msgspec.structs.replace(found, fewer=_why_not_fewer(tried))
            return _with_changes(model, serving, card, found) if proposes else found
        tried.append(found)
    nearest = less_sure(model, serving, card, min(tried, key=_distance))
    if not proposes:
        return nearest
    return _with_changes(model, serving, card, nearest)


def _distance(found: CardFit) -> tuple[bool, int, bool, int]:
    """How far a no is from a yes: where memory is enough and something else is in the way, fewer GPUs are
    nearer.
    """
    memory = found.memory
    lacks_memory = memory.kv_pool.low_bytes < memory.kv_needed_bytes
    distance = -memory.kv_pool.bytes if lacks_memory else found.gpus
    return found.verdict is FitVerdict.NO, len(found.reasons), lacks_memory, distance


def _why_not_fewer(tried: list[CardFit]) -> str:
    """Why the most GPUs that were too few do not do, where that is a matter of memory."""
    few = [one for one in tried if len(one.reasons) == 1]
    if not few:
        return ""
    most = max(few, key=lambda one: one.gpus)
    gpus = "1 GPU" if most.gpus == 1 else f"{most.gpus} GPUs"
    return f"{gpus}: {most.reasons[0]}"


def _with_changes(model: Model, serving: Serving, card: CardEntry, nearest: CardFit) -> CardFit:
    def fits(other: Serving) -> CardFit | None:
        found = on_card(model, other, card, proposes=False)
        return found if found.verdict is FitVerdict.YES else None

    if nearest.verdict is FitVerdict.YES:
        changes = tuple(fewer_gpus(serving, nearest.gpus, fits))
    else:
        changes = tuple(changes_for(model, serving, fits))
    return msgspec.structs.replace(nearest, changes=changes)


def notes(model: Model) -> Iterable[str]:
    """What the numbers leave out."""
    if model.facts.lacks:
        yield f"Not counted: {model.facts.lacks}. What it takes comes on top of these numbers."
    if model.facts.vision_parameters:
        yield (
            "The image encoder is counted by its usual shape, at most whole on every GPU; images take memory"
            " of their own while they are read."
        )
