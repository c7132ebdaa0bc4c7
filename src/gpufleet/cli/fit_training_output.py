"""Lays the answer about training a model out for people, or as JSON."""

from collections.abc import Iterator

from gpufleet.cli.fit_output import ANSWERS, billions, origin, others, row, table
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.fit.answer import FitVerdict, Training, TrainingAnswer
from gpufleet.fit.ranges import Amount


def show_training(answer: TrainingAnswer, output: str, *, detailed: bool) -> None:
    """Print an answer on standard output; ``detailed``: card by card with all its memory."""
    if output == "json":
        echo_json(answer)
        return
    for line in lines(answer, detailed=detailed):
        echo_line(line)


def lines(answer: TrainingAnswer, *, detailed: bool) -> Iterator[str]:
    """The whole text."""
    model = answer.model
    yield f"{model.name}: {billions(model.parameters)} parameters, {model.layers} layers"
    yield from origin(model)
    trained = f"{answer.trained_parameters / 1e6:,.1f} M parameters"
    if answer.rank:
        trained += f" of adapters of rank {answer.rank}, the rest frozen in {answer.frozen_weights}"
    yield f"  trained      {trained}"
    layers = "layers recomputed" if answer.recomputes else "no layer recomputed"
    precision = "mixed precision" if answer.precision == "mixed" else "16 bits"
    loss = ", fused loss" if answer.fuses_loss else ""
    yield (
        f"  asked for    {answer.batch} x {answer.context} tokens a GPU, ZeRO {answer.zero}, Adam in"
        f" {precision}, {layers}{loss}"
    )
    yield ""
    if detailed:
        for card in answer.cards:
            yield from of_card(card)
        return
    fitting = [card for card in answer.cards if card.verdict is FitVerdict.YES]
    fitting.sort(key=lambda card: (card.gpus * card.memory.usable_bytes, card.gpu))
    yield from table([("card", "GPUs"), *((card.gpu, str(card.gpus)) for card in fitting)])
    yield from others(answer.cards)


def of_card(card: Training) -> Iterator[str]:
    """One card with all its memory."""
    memory = card.memory
    gpus = "1 GPU" if card.gpus == 1 else f"{card.gpus} GPUs"
    yield f"{card.gpu}: {ANSWERS[card.verdict]} on {gpus}"
    for reason in card.reasons:
        yield f"  because {reason}"
    for decider in card.decided_by:
        yield f"  decided by {decider}"
    yield "  each GPU, GiB     least  expected   most"
    yield row("usable", Amount.exact(memory.usable_bytes, "what a program finds"))
    yield row("states", memory.states)
    for name, one in (("frozen weights", memory.frozen), ("gathered", memory.gathered)):
        if one.high_bytes:
            yield row(name, one)
    yield row("activations", memory.activations)
    yield row("logits", memory.logits)
    yield row("step", memory.step)
    yield row("runtime", memory.runtime)
    yield row("at a time", memory.total)
    for change in card.changes:
        yield f"  try               {change}"
