"""What the estimates are held against: measurements that others published, each with its source.

A row is ``fitted`` where a constant of ``engines`` was chosen with that row in view. The others were found
afterwards, or nothing in them is a constant of ours; only they say how near an estimate comes to what was not
seen before. ``gpufleet fit --list-evidence`` shows them, and the tests hold the bounds.
"""

import enum
import functools
from collections.abc import Iterable
from importlib import resources
from statistics import median

import msgspec

from gpufleet.fit.answer import Memory
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import find_cards, find_model
from gpufleet.fit.engines import engine_named
from gpufleet.fit.facts import Origin
from gpufleet.fit.formats import format_named
from gpufleet.fit.placing import memory_of
from gpufleet.fit.question import CONTEXT, Model, Serving
from gpufleet.fit.ranges import GIB, Amount
from gpufleet.fit.ranks import Division

ANY_CARD = "H100-80GB"
"""The card for a row whose source names none: weights are as large on every card."""


class EvidencePart(enum.StrEnum):
    """What of a GPU's memory was measured."""

    WEIGHTS = "weights"
    ACTIVATIONS = "activations"
    POOL = "pool"


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measurement on one GPU, in GiB.

    ``gpu`` is empty where the source names no card, ``weights`` where they are as published;
    ``sequences_max`` and ``batched_tokens`` are 0 where the engine set itself.
    """

    part: EvidencePart
    model: str
    measured_gib: float
    source: str
    fitted: bool
    engine: str
    utilisation: float
    gpu: str = ""
    tensor_parallel: int = 1
    weights: str = ""
    sequences_max: int = 0
    batched_tokens: int = 0

    @property
    def estimate(self) -> Amount:
        """The estimate of the part that was measured."""
        memory = estimated_memory(self)
        parts = {
            EvidencePart.WEIGHTS: memory.weights,
            EvidencePart.ACTIVATIONS: memory.activations,
            EvidencePart.POOL: memory.kv_pool,
        }
        return parts[self.part]

    @property
    def off(self) -> float:
        """By which part of the measurement the estimate is above it; below it is negative."""
        return self.estimate.bytes / GIB / self.measured_gib - 1


@functools.cache
def estimated_memory(row: Evidence) -> Memory:
    """What is estimated for the model, card and engine of a row; estimate and error both ask for it."""
    entry = find_model(row.model)
    facts = facts_of(row.model, entry.config)
    form = format_named(row.weights) if row.weights else facts.native
    serving = Serving(
        CONTEXT,
        1,
        form,
        "auto",
        engine_named(row.engine),
        row.utilisation,
        sequences_max=row.sequences_max,
        batched_tokens=row.batched_tokens,
    )
    model = Model(facts, Origin.CATALOGUE, entry.address)
    card = find_cards(row.gpu or ANY_CARD)[0]
    return memory_of(model, serving, card, Division(1, row.tensor_parallel))


class Nearness(msgspec.Struct, frozen=True):
    """How near the estimates of a part come, over rows that are all fitted or all not."""

    part: EvidencePart
    fitted: bool
    rows: int
    sources: int
    median_off: float
    worst_off: float


@functools.cache
def evidence() -> tuple[Evidence, ...]:
    """Every row."""
    data = (resources.files("gpufleet.fit") / "data" / "evidence.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Evidence, ...])


def nearness(rows: Iterable[Evidence]) -> list[Nearness]:
    """The summary of rows by part, those that were fitted apart from those that were not."""
    found = []
    known = tuple(rows)
    for part in EvidencePart:
        for fitted in (True, False):
            of_kind = [row for row in known if (row.part, row.fitted) == (part, fitted)]
            if of_kind:
                off = [abs(row.off) for row in of_kind]
                sources = len({row.source for row in of_kind})
                found.append(Nearness(part, fitted, len(of_kind), sources, median(off), max(off)))
    return found
