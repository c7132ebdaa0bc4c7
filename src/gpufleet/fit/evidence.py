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
from gpufleet.fit.catalogue import find_cards
from gpufleet.fit.engines import engine_named
from gpufleet.fit.formats import format_named
from gpufleet.fit.options import catalogue_model
from gpufleet.fit.placing import memory_of
from gpufleet.fit.question import CONTEXT, Serving
from gpufleet.fit.ranges import GIB, Amount, together
from gpufleet.fit.ranks import Division
from gpufleet.fit.training import Course
from gpufleet.fit.training import memory_of as training_memory

ANY_CARD = "H100-80GB"
"""The card for a row whose source names none: weights are as large on every card."""


ROUNDED = 0.005
"""Sources round to two digits, so a bound counts as held within so much of the measurement."""


class EvidencePart(enum.StrEnum):
    """What of a GPU's memory was measured.

    ``PEAK`` is all that is neither weights nor pool: the trial run's peak and what the runtime holds.
    ``KEYS`` are the keys and values of so many tokens, ``TRAINING`` all that training of every weight holds,
    ``ADAPTERS`` the same for LoRA and QLoRA.
    """

    WEIGHTS = "weights"
    KEYS = "keys and values"
    ACTIVATIONS = "activations"
    PEAK = "peak and runtime"
    RUNTIME = "runtime"
    GRAPHS = "graphs"
    POOL = "pool"
    TRAINING = "training"
    ADAPTERS = "adapters"


class TrainingRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the training was set up whose memory was measured.

    ``counts_runtime``: the number is the driver's, with CUDA's context, and not PyTorch's alone.
    ``precision`` and ``fuses_loss`` are those of ``training.Course``.
    """

    method: str
    context: int
    batch: int
    gpus: int = 1
    zero: int = 3
    rank: int = 16
    counts_runtime: bool = False
    recomputes: bool = True
    precision: str = "mixed"
    fuses_loss: bool = False


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measurement on one GPU, in GiB.

    ``gpu`` is empty where the source names no card, ``weights`` where they are as published;
    ``sequences_max`` and ``batched_tokens`` are 0 where the engine set itself. ``version`` is the engine's,
    as far as the source says it, ``date`` that of the measurement or of the page.
    """

    part: EvidencePart
    model: str
    measured_gib: float
    source: str
    fitted: bool
    engine: str = ""
    utilisation: float = 0.0
    gpu: str = ""
    tensor_parallel: int = 1
    weights: str = ""
    sequences_max: int = 0
    batched_tokens: int = 0
    tokens: int = 0
    training: TrainingRun | None = None
    version: str = ""
    date: str = ""

    @property
    def estimate(self) -> Amount:
        """The estimate of the part that was measured."""
        if self.training is not None:
            return _estimated_training(self, self.training)
        memory = estimated_memory(self)
        match self.part:
            case EvidencePart.KEYS:
                # One sequence of a few blocks, so that the padding of the last one does not count.
                return Amount.exact(memory.sequence_bytes / CONTEXT * self.tokens, "")
            case EvidencePart.PEAK:
                return together([memory.activations, memory.runtime], "")
            case EvidencePart.RUNTIME:
                return memory.runtime
            case EvidencePart.GRAPHS:
                return memory.graphs
            case EvidencePart.POOL:
                return memory.kv_pool
            case EvidencePart.ACTIVATIONS:
                return memory.activations
            case _:
                return memory.weights

    @property
    def off(self) -> float:
        """By which part of the measurement the estimate is above it; below it is negative."""
        return self.estimate.bytes / GIB / self.measured_gib - 1

    @property
    def is_false_fit(self) -> bool:
        """Whether the worst case of the estimate was better than what was measured: a yes could be wrong."""
        measured, rounded = self.measured_gib * GIB, ROUNDED * self.measured_gib * GIB
        if self.part is EvidencePart.POOL:
            return self.estimate.low_bytes > measured + rounded
        return self.estimate.high_bytes < measured - rounded


@functools.cache
def estimated_memory(row: Evidence) -> Memory:
    """What is estimated for the model, card and engine of a row; estimate and error both ask for it."""
    model = catalogue_model(row.model)
    serving = Serving(
        CONTEXT,
        1,
        format_named(row.weights) if row.weights else model.facts.native,
        "auto",
        engine_named(row.engine),
        row.utilisation,
        sequences_max=row.sequences_max,
        batched_tokens=row.batched_tokens,
    )
    card = find_cards(row.gpu or ANY_CARD)[0]
    return memory_of(model, serving, card, Division(1, row.tensor_parallel))


@functools.cache
def _estimated_training(row: Evidence, run: TrainingRun) -> Amount:
    course = Course(
        run.method,
        run.context,
        run.batch,
        run.zero,
        run.rank,
        recomputes=run.recomputes,
        precision=run.precision,
        fuses_loss=run.fuses_loss,
    )
    card = find_cards(row.gpu or ANY_CARD)[0]
    memory = training_memory(catalogue_model(row.model), course, card, run.gpus)
    if run.counts_runtime:
        return memory.total
    runtime = memory.runtime
    return Amount(
        memory.total.low_bytes - runtime.low_bytes,
        memory.total.bytes - runtime.bytes,
        memory.total.high_bytes - runtime.high_bytes,
        "",
    )


class Nearness(msgspec.Struct, frozen=True):
    """How near the estimates of a part come, over rows that are all fitted or all not."""

    part: EvidencePart
    fitted: bool
    rows: int
    sources: int
    median_off: float
    worst_off: float
    false_fits: int


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
                false_fits = sum(row.is_false_fit for row in of_kind)
                found.append(Nearness(part, fitted, len(of_kind), sources, median(off), max(off), false_fits))
    return found
