"""Shows what runs well on this machine's own GPUs, as a table or as JSON."""

from collections.abc import Iterator

from gpufleet.advise.fit.on_machine import MachineModels
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.fit.running_well import OLLAMA, VLLM, WELL_TOKENS_PER_S, RunnableModel

SCHEMA = 1
"""A change that breaks readers of the JSON gets another number."""

NO_WAY = "-"
"""In the table, where a program does not run the model well."""


def show_runnable(found: MachineModels, output: str) -> None:
    """Print the GPUs and the models."""
    if output == "json":
        echo_json({"schema": SCHEMA, "found": found})
        return
    for line in _lines(found):
        echo_line(line)


def _lines(found: MachineModels) -> Iterator[str]:
    for card in found.cards:
        each = f"{card.usable_mib / 1024:.1f} GiB and {card.bandwidth_gb_s:g} GB/s each"
        yield f"{card.gpus_per_node_max} x {card.model}, {each}"
    for line in found.left_out:
        yield f"Left out: {line}"
    yield ""
    if not found.models:
        yield f"No model of the catalogue surely fits here with {found.context:,} tokens and is fast enough."
        return
    yield f"{len(found.models)} models surely fit with {found.context:,} tokens. TOKENS/S is an estimate by"
    yield f"memory bandwidth that no server reaches; what is below {WELL_TOKENS_PER_S:g} is left out."
    yield ""
    columns = [
        Column("MODEL"),
        Column("HUGGING FACE (vLLM)"),
        Column("GPUS", right=True),
        Column("TOKENS/S", right=True),
        Column("OLLAMA"),
        Column("WEIGHTS"),
        Column("GPUS", right=True),
        Column("TOKENS/S", right=True),
    ]
    yield from (line.text for line in laid_out(columns, ((_cells(one), "") for one in found.models), None))


def _cells(one: RunnableModel) -> list[str]:
    ways = {way.program: way for way in one.ways}
    vllm, ollama = ways.get(VLLM), ways.get(OLLAMA)
    return [
        one.model,
        vllm.name if vllm else NO_WAY,
        str(vllm.gpus) if vllm else NO_WAY,
        f"{vllm.estimated_tokens_per_s:.0f}" if vllm else NO_WAY,
        ollama.name if ollama else NO_WAY,
        ollama.weights if ollama else NO_WAY,
        str(ollama.gpus) if ollama else NO_WAY,
        f"{ollama.estimated_tokens_per_s:.0f}" if ollama else NO_WAY,
    ]
