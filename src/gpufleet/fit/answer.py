"""What comes out of a question about fitting: every number with its range and its basis, as JSON has it."""

import enum

import msgspec

from gpufleet.fit.basis import Basis
from gpufleet.fit.ranges import Amount

# Of the JSON; it grows where a field changes its meaning.
SCHEMA = 2


class FitVerdict(enum.Enum):
    """Whether it fits: a yes holds in the worst case and a no in the best; all between is unsure."""

    YES = "yes"
    UNSURE = "unsure"
    NO = "no"


class Memory(msgspec.Struct, frozen=True):
    """One GPU's memory; ``budget_bytes`` is what the engine may use of ``usable_bytes``.

    ``beside`` needs room in what the budget leaves.
    """

    usable_bytes: int
    budget_bytes: int
    weights: Amount
    activations: Amount
    runtime: Amount
    graphs: Amount
    beside: Amount
    kv_pool: Amount
    kv_needed_bytes: int
    sequence_bytes: int


class Speed(msgspec.Struct, frozen=True):
    """Tokens a second that memory bandwidth allows at most: a bound, never a forecast.

    ``empty`` for one sequence that just began, ``full`` for each of the batch with its whole context.
    """

    empty_tokens_per_s: float
    full_tokens_per_s: float
    basis: str


class CardFit(msgspec.Struct, frozen=True):
    """The answer for one card and one division; ``sequences`` are of the context that was asked for.

    ``decided_by`` says what would make an unsure answer a sure one. ``fewer`` says why fewer GPUs do not do,
    where that is a matter of memory.
    """

    gpu: str
    gpus: int
    tensor_parallel: int
    pipeline_parallel: int
    verdict: FitVerdict
    memory: Memory
    sequences_min: int
    sequences: int
    context_max: int
    speed: Speed
    reasons: tuple[str, ...] = ()
    decided_by: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    source: str = ""
    fewer: str = ""


class About(msgspec.Struct, frozen=True):
    """The model, as its facts are known; ``basis`` is that of the catalogue, None for files and the hub."""

    name: str
    origin: str
    source: str
    date: str
    basis: Basis | None
    parameters: int
    active_parameters: int
    layers: int
    context_max: int
    native_weights: str


class AskedModel(msgspec.Struct, frozen=True):
    """How it is to be served, with what was left to the engine filled in."""

    context: int
    batch: int
    weights: str
    kv: str
    engine: str
    engine_about: str
    utilisation: float


class Answer(msgspec.Struct, frozen=True):
    """The whole answer: the model, what was asked, and each card."""

    schema: int
    model: About
    asked: AskedModel
    kv_bytes_per_token: int
    weights_bytes: int
    weights_basis: str
    cards: tuple[CardFit, ...]
    notes: tuple[str, ...] = ()


class TrainingMemory(msgspec.Struct, frozen=True):
    """One GPU's memory while a model is trained.

    ``total`` is the most that is held at a time, which is less than the sum: gradients come as what was kept
    for them goes.
    """

    usable_bytes: int
    states: Amount
    frozen: Amount
    gathered: Amount
    activations: Amount
    logits: Amount
    step: Amount
    runtime: Amount
    total: Amount


class Training(msgspec.Struct, frozen=True):
    """The answer for one card: the fewest GPUs that surely do."""

    gpu: str
    gpus: int
    verdict: FitVerdict
    memory: TrainingMemory
    reasons: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    decided_by: tuple[str, ...] = ()


class TrainingAnswer(msgspec.Struct, frozen=True):
    """The whole answer about training; ``rank`` of adapters, 0 if all parameters are trained."""

    schema: int
    model: About
    method: str
    context: int
    batch: int
    zero: int
    rank: int
    trained_parameters: int
    frozen_weights: str
    cards: tuple[Training, ...]
    recomputes: bool = True
    precision: str = "mixed"
    fuses_loss: bool = False
