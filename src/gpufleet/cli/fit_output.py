"""Lays the answer about a model on GPUs out for people, or as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.fit.answer import About, Answer, CardFit, FitVerdict, Memory, Training
from gpufleet.fit.catalogue import cards, models
from gpufleet.fit.manifest import TO_FILL_IN, TO_FILL_IN_FOR_SEVERAL_NODES
from gpufleet.fit.ranges import GIB, Amount

ANSWERS = {FitVerdict.YES: "fits", FitVerdict.UNSURE: "unsure", FitVerdict.NO: "does not fit"}


def show(answer: Answer, output: str, *, detailed: bool) -> None:
    """Print an answer on standard output; ``detailed``: card by card with all its memory."""
    if output == "json":
        echo_json(answer)
        return
    for line in lines(answer, detailed=detailed):
        echo_line(line)


def show_manifest(objects: list[dict[str, Any]], output: str) -> None:
    """The manifest for `kubectl apply -f -`, and on standard error the fields that its user fills in."""
    if output == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": objects}
        echo_json(whole)
    else:
        import yaml

        click.echo(yaml.safe_dump_all(objects, sort_keys=False, width=110), nl=False)
    is_group = objects[-1]["kind"] == "LeaderWorkerSet"
    for line in (*TO_FILL_IN, *(TO_FILL_IN_FOR_SEVERAL_NODES if is_group else ())):
        echo_line(f"note: {line}", err=True)


def show_catalogue(output: str) -> None:
    """All models and cards, and the source of each checked fact."""
    if output == "json":
        both = {"schema": 1, "models": models(), "cards": cards()}
        echo_json(both)
        return
    rows = [("model", "parameters", "published", "on the hub", "configuration")]
    rows += [
        (one.name, f"{one.parameters / 1e9:.1f} B", one.date, one.hub, one.config_basis.text)
        for one in models()
    ]
    for line in table(rows):
        echo_line(line)
    click.echo("")
    rows = [("card", "usable", "", "bandwidth", "")]
    rows += [
        (
            one.model,
            f"{one.usable_mib / 1024:.1f} GiB",
            one.usable_basis.text,
            f"{one.bandwidth_gb_s:g} GB/s",
            one.bandwidth_basis.text,
        )
        for one in cards()
    ]
    for line in table(rows):
        echo_line(line)


def lines(answer: Answer, *, detailed: bool) -> Iterator[str]:
    """The whole text."""
    model, asked = answer.model, answer.asked
    active = ""
    if model.active_parameters < 0.9 * model.parameters:
        active = f", {billions(model.active_parameters)} active for a token"
    yield f"{model.name}: {billions(model.parameters)} parameters{active}, {model.layers} layers"
    yield from origin(model)
    yield f"  weights      {amount(answer.weights_bytes)} in {asked.weights} ({answer.weights_basis})"
    yield f"  a token      {answer.kv_bytes_per_token:,} bytes of keys and values, kv {asked.kv}"
    yield f"  asked for    {asked.batch} x {asked.context} tokens, {asked.engine_about}"
    for note in answer.notes:
        yield f"  note         {note}"
    if detailed:
        for card in answer.cards:
            yield ""
            yield from of_card(card, answer)
        return
    yield ""
    yield from overview(answer)


def origin(model: About) -> Iterator[str]:
    """Where the model's facts are from, and whether an entry of the catalogue was checked."""
    if model.basis is None:
        yield f"  facts        {model.source}"
        return
    yield f"  facts        {model.basis.text}"
    yield f"               published {model.date}, {model.source}"


def of_card(card: CardFit, answer: Answer) -> Iterator[str]:
    """One card with all its memory."""
    memory, asked = card.memory, answer.asked
    yield f"{card.gpu}: {ANSWERS[card.verdict]}" + (
        f" on {divided(card)}" if card.verdict is FitVerdict.YES else f" ({divided(card)})"
    )
    for reason in card.reasons:
        yield f"  because {reason}"
    for decider in card.decided_by:
        yield f"  decided by {decider}"
    yield "  each GPU, GiB     least  expected   most"
    yield row("usable", Amount.exact(memory.usable_bytes, card.source))
    yield row("the engine's", Amount.exact(memory.budget_bytes, f"{budget_share(memory):g} of it"))
    yield row("weights", memory.weights)
    yield row("activations", memory.activations)
    yield row("runtime", memory.runtime)
    if memory.graphs.high_bytes:
        yield row("graphs", memory.graphs)
    yield row("beside", memory.beside)
    yield row("left for KV", memory.kv_pool)
    yield row("KV asked for", Amount.exact(memory.kv_needed_bytes, f"{asked.batch} x {asked.context} tokens"))
    if card.verdict is FitVerdict.YES:
        at_once = f"{card.sequences_min} to {card.sequences}"
        if card.sequences_min == card.sequences:
            at_once = str(card.sequences)
        sequences = "sequence" if at_once == "1" else "sequences"
        yield f"  at once           {at_once} {sequences} of {asked.context} tokens"
        yield f"  longest           {asked.batch} x {card.context_max} tokens surely fit"
    speed = card.speed
    yield (
        f"  decoding          at most {speed.empty_tokens_per_s:g} tokens/s a sequence,"
        f" {speed.full_tokens_per_s:g} with full context"
    )
    yield f"                    ({speed.basis})"
    for remark in card.remarks:
        yield f"  note              {remark}"
    if card.fewer:
        yield f"  not on            {card.fewer}"
    heading = "or on" if card.verdict is FitVerdict.YES else "it surely fits with"
    for change in card.changes:
        yield f"  {heading:<17} {change}"
    if not card.changes and card.verdict is not FitVerdict.YES:
        yield "  no change that was tried makes it fit on this card"


def budget_share(memory: Memory) -> float:
    """The part of the card that the engine may use."""
    return round(memory.budget_bytes / memory.usable_bytes, 3)


def overview(answer: Answer) -> Iterator[str]:
    """One line a card, those first that need the fewest GPUs and the least memory."""
    fitting = [card for card in answer.cards if card.verdict is FitVerdict.YES]
    fitting.sort(key=lambda card: (card.gpus * card.memory.usable_bytes, card.gpu))
    rows = [("card", "GPUs", "tensor", "stages", "at once", "longest", "tokens/s at most")]
    rows += [
        (
            card.gpu,
            str(card.gpus),
            str(card.tensor_parallel),
            str(card.pipeline_parallel),
            str(card.sequences_min),
            str(card.context_max),
            f"{card.speed.empty_tokens_per_s:g}",
        )
        for card in fitting
    ]
    yield from table(rows)
    yield from others(answer.cards)


def others(cards_asked: Iterable[CardFit] | Iterable[Training]) -> Iterator[str]:
    """The cards without a yes: those that are unsure apart from those on which it does not fit."""
    answers = [(card.gpu, card.verdict) for card in cards_asked]
    unsure = [gpu for gpu, verdict in answers if verdict is FitVerdict.UNSURE]
    refused = [gpu for gpu, verdict in answers if verdict is FitVerdict.NO]
    if unsure:
        yield ""
        yield f"Unsure on: {', '.join(unsure)}. --gpu CARD says what decides it."
    if refused:
        yield ""
        yield f"It fits on no number of: {', '.join(refused)}. --gpu CARD says why."


def divided(card: CardFit) -> str:
    """The division for people."""
    if card.gpus == 1:
        return "1 GPU"
    stages = f" x {card.pipeline_parallel} pipeline stages" if card.pipeline_parallel > 1 else ""
    return f"{card.gpus} GPUs, tensor parallel {card.tensor_parallel}{stages}"


def row(name: str, one: Amount) -> str:
    """One part of the memory, with its range where it has one."""
    low, expected, high = (size / GIB for size in sizes(one))
    if one.low_bytes == one.high_bytes:
        return f"  {name:<16} {'':>6}  {expected:>8.2f} {'':>6}  {one.basis}"
    return f"  {name:<16} {low:>6.2f}  {expected:>8.2f} {high:>6.2f}  {one.basis}"


def sizes(one: Amount) -> tuple[int, int, int]:
    """Least, expected, most."""
    return one.low_bytes, one.bytes, one.high_bytes


def amount(size: float) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"


def billions(count: int) -> str:
    """A number of parameters for people."""
    return f"{count / 1e9:.1f} B"


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for line in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
