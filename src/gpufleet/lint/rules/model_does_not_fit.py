"""GPU048: a model does not fit into the memory of the GPUs that its server is given."""

from collections.abc import Iterator, Sequence

from gpufleet.fit.answer import CardFit, FitVerdict
from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.placing import weights_of
from gpufleet.fit.question import Model, Serving
from gpufleet.fit.ranges import GIB
from gpufleet.fit.ranks import Division
from gpufleet.fit.search import on_card
from gpufleet.kube.meanings.node_labels import NVIDIA_PRODUCT
from gpufleet.lint.objects.chosen_cards import chosen_cards
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.other_model_servers import TRITON, OtherServed, other_served
from gpufleet.lint.objects.triton_repository import triton_served
from gpufleet.lint.objects.vllm_command import MODEL_NEEDED, Served, served
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Severity, Unjudged
from gpufleet.lint.source.fields import Field

_CARD_NEEDED = (
    f"whole cards of the catalogue, by the pod's own selection of {NVIDIA_PRODUCT} or of a cloud's label for"
    f" one card, or by the labels of every node that may take it: {CLUSTER_NEEDED}"
)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each server with a model that surely does not fit on one of the cards that it may get."""
    for template in manifest.templates:
        for container in template.containers:
            found = (served(container) or other_served(container)) if container.has_gpu else None
            if found is None:
                continue
            cards = chosen_cards(template, container, context)
            if isinstance(found, OtherServed) and found.title == TRITON:
                for one in triton_served(manifest, template, container, context) or (found,):
                    yield from _judged(container, one, cards)
            else:
                yield from _judged(container, found, cards)


def _judged(
    container: Container, found: Served | OtherServed, cards: Sequence[CardEntry]
) -> Iterator[RuleFinding | Unjudged]:
    field = container.field.at("args" if container.field.at("args").exists else "command")
    if found.model is None or found.serving is None:
        yield Unjudged(field, MODEL_NEEDED)
    elif not cards:
        yield Unjudged(field, _CARD_NEEDED)
    elif isinstance(found, OtherServed):
        yield _by_weights(field, container, found.title, found.model, found.serving, cards)
    else:
        yield from _by_all(field, container, found.model, found.serving, cards)


def _by_all(
    field: Field, container: Container, model: Model, serving: Serving, cards: Sequence[CardEntry]
) -> Iterator[RuleFinding | Unjudged]:
    """What the arithmetic of ``gpufleet fit`` says of all that the server holds."""
    answers = [on_card(model, serving, card, proposes=True) for card in cards]
    refused = [one for one in answers if one.verdict is FitVerdict.NO]
    if refused:
        yield _remark(field, _serves(container, model), refused[0], _severity(refused, cards))
        return
    unsure = next((one for one in answers if one.verdict is FitVerdict.UNSURE), None)
    if unsure is not None:
        yield Unjudged(field, unsure.decided_by[0])


def _by_weights(
    field: Field,
    container: Container,
    title: str,
    model: Model,
    serving: Serving,
    cards: Sequence[CardEntry],
) -> RuleFinding | Unjudged:
    """A server of which only the weights are counted: where they are too large alone, nothing helps."""
    division = Division(serving.stages or 1, serving.tensor_parallel or 1)
    weights = weights_of(model, serving, division)
    too_small = [one for one in cards if weights.low_bytes > one.usable_bytes]
    if not too_small:
        return Unjudged(field, f"what {title} needs beside the weights, which have room")
    card = too_small[0]
    gpus = f"on each of {division.gpus} GPUs" if division.gpus > 1 else "on one GPU"
    has_gib, needs_gib = card.usable_bytes / GIB, weights.low_bytes / GIB
    says = (
        f"{_serves(container, model)} with {title} on {card.model}: its weights alone are {needs_gib:.0f} GiB"
        f" {gpus}, and the card has {has_gib:.0f}"
    )
    advice = "divide it among more GPUs; gpufleet fit says how many"
    return RuleFinding(field, says, advice, severity=_severity(too_small, cards))


def _severity(refusing: Sequence[object], cards: Sequence[CardEntry]) -> Severity | None:
    # Where another card has room, the pod may be placed there.
    return None if len(refusing) == len(cards) else Severity.WARNING


def _serves(container: Container, model: Model) -> str:
    return f"container {container.name} serves {model.facts.name}"


def _remark(field: Field, what: str, refused: CardFit, severity: Severity | None) -> RuleFinding:
    reason = refused.reasons[0] if refused.reasons else "too little memory"
    advice = "; or ".join(refused.changes[:2]) or "gpufleet fit says which GPUs do"
    return RuleFinding(field, f"{what} on {refused.gpu}: {reason}", advice, severity=severity)


RULE = Rule("GPU048", "Model that does not fit", Severity.ERROR, check)
