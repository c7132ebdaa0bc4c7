"""Does training fit: states of weights, gradients and Adam, what is kept for the way back, and logits.

Mixed precision with Adam keeps 16 bytes a trained parameter (ZeRO, arXiv 1910.02054, section 3.1): 2 of
weights, 2 of gradients, 12 of the optimiser in 32 bits; some frameworks keep gradients in 32 bits, two
more. With everything in 16 bits it keeps 8. ZeRO 1, 2 and 3 divide the optimiser, the gradients and the
weights among all GPUs; FSDP's full sharding is ZeRO 3. LoRA trains two thin matrices beside each frozen one
(arXiv 2106.09685), QLoRA freezes in NF4 (arXiv 2305.14314). Layers are recomputed, so that one input a layer
and the inside of one layer with its gradients are kept.

Three moments of a step compete for the peak. Before the way back all that is kept for it is there, and no
gradient; at its end all gradients are, and nothing else; while Adam steps, PyTorch's default implementation
holds one more number a parameter (``foreach`` of `torch.optim.AdamW`; a fused one does not). Where gradients
are accumulated over several batches, they are there beside what is kept, so that the upper bound adds both.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from gpufleet.fit.answer import SCHEMA, About, FitVerdict, Training, TrainingAnswer, TrainingMemory
from gpufleet.fit.catalogue import CardEntry
from gpufleet.fit.facts import (
    Dense,
    Experts,
    GroupedAttention,
    LatentAttention,
    Layer,
    ModelFacts,
    Recurrence,
)
from gpufleet.fit.formats import FORMATS
from gpufleet.fit.question import Model
from gpufleet.fit.ranges import GIB, Amount, gib, together
from gpufleet.fit.shapes import of_layer, parameters
from gpufleet.fit.weights import total_bytes
from gpufleet.model.model_errors import InputError

DECIDED_BY = (
    "a few steps of training: torch.cuda.max_memory_allocated() says what they held; a fused loss and Adam in"
    " 16 bits hold the least"
)
METHODS = ("full", "lora", "qlora")
PRECISIONS = ("mixed", "bf16")
# Ends the search for a number of GPUs on which the training fits.
GPUS_MAX = 1024
OPTIMISER_BYTES = {"mixed": 12, "bf16": 4}
"""Of Adam, a parameter: the weight and two moments, each in 32 bits; or the moments alone in 16 bits."""

OPTIMISER_LEAST_BYTES = {"mixed": 4, "bf16": 2}
"""Of Adam, a parameter, at least: both moments in 16 bits and the weight alone, or both in 8 bits."""

STEP_BYTES = {"mixed": 4, "bf16": 2}
"""One more number a parameter while Adam steps, where its kernel is not fused."""

LOGIT_BYTES = (0, 6, 12)
"""Bytes of a logit: none where the loss is fused, and beside the inside of a layer as was seen; in 32 bits
with its gradient at most.
"""

FUSED_LOGIT_BYTES = (0, 0, 4)
"""Bytes of a logit where the loss is fused with the head, or computed in chunks: logits stay in 16 bits, and
their gradients at most.
"""

INSIDE_COPIES = (1.0, 1.85, 3.5)
"""The inside of a layer and its gradients: with kernels that keep little, with fused ones as was seen, and
with those that keep every step.
"""

KEPT_COPIES = (0.7, 1.33, 2.0)
"""The inside of every layer, where none is recomputed: compiled, as was seen, and with every step kept."""

KEPT_WORDS = {
    True: "inputs of layers, the inside of one and its gradients",
    False: "the inside of every layer, which is not recomputed",
}
INPUTS_SPREAD = 0.1
"""How far the kept inputs of layers may lie from what is counted."""

# Low, likely and high: CUDA's context and libraries on one GPU; with links also their buffers.
ALONE_GIB = (0.4, 0.8, 1.5)
LINKED_GIB = (0.6, 1.5, 3.0)
FRAGMENTATION = 0.05
"""What the allocator of PyTorch may lose between blocks, added to the upper bound alone."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a model is to be trained: ``batch`` sequences a GPU, ``zero`` of ZeRO's stages.

    ``trains_tables``: beside the adapters the embedding and the head are trained, as copies of the frozen
    ones (PEFT's ``modules_to_save``). ``recomputes``: of each layer only the input is kept for the way back.
    ``precision`` is that of the states: "mixed", or "bf16" for all in 16 bits. ``fuses_loss``: logits are
    never whole in memory.
    """

    method: str
    context: int
    batch: int
    zero: int = 3
    rank: int = 16
    trains_tables: bool = False
    recomputes: bool = True
    precision: str = "mixed"
    fuses_loss: bool = False


def train(model: Model, about: About, course: Course, cards: Iterable[CardEntry]) -> TrainingAnswer:
    """The answer for these cards."""
    if course.trains_tables and course.method == "full":
        raise InputError("full training trains the embedding anyway", field="--train-embeddings")
    if course.method not in METHODS:
        raise InputError(
            "no such way of training", field="--train", value=course.method, expected=", ".join(METHODS)
        )
    if course.precision not in PRECISIONS:
        raise InputError(
            "no such precision of the states",
            field="--precision",
            value=course.precision,
            expected=", ".join(PRECISIONS),
        )
    frozen = "" if course.method == "full" else ("nf4" if course.method == "qlora" else "bf16")
    return TrainingAnswer(
        schema=SCHEMA,
        model=about,
        method=course.method,
        context=course.context,
        batch=course.batch,
        zero=course.zero,
        rank=0 if course.method == "full" else course.rank,
        trained_parameters=trained_parameters(model, course),
        frozen_weights=frozen,
        cards=tuple(on_card(model, course, card) for card in cards),
        recomputes=course.recomputes,
        precision=course.precision,
        fuses_loss=course.fuses_loss,
    )


@functools.cache
def trained_parameters(model: Model, course: Course) -> int:
    """The number of parameters that are trained: all of the model's, or those of the adapters."""
    if course.method == "full":
        return parameters(model.facts)
    adapters = sum(
        course.rank * sides for layer in model.facts.layers for sides in _sides(layer, model.facts.hidden)
    )
    return adapters + (trained_tables(model.facts) if course.trains_tables else 0)


def trained_tables(facts: ModelFacts) -> int:
    """Parameters of the embedding and the head, which are one table where they are tied."""
    return facts.vocabulary * facts.hidden * (1 if facts.tied else 2)


def _sides(layer: Layer, hidden: int) -> Iterator[int]:
    """Rows plus columns of every matrix that adapters are put beside; experts get none."""
    for one in layer.mixers:
        match one:
            case GroupedAttention() as mixer:
                queries, keys = mixer.heads * mixer.head_dim, mixer.kv_heads * mixer.head_dim
                yield from (2 * (hidden + queries), 2 * (hidden + keys))
            case LatentAttention() as mixer:
                yield 2 * (hidden + mixer.heads * (mixer.plain_dim + mixer.rotary_dim))
                yield 2 * (hidden + mixer.kv_rank)
            case Recurrence() as mixer:
                yield from (rows + columns for rows, columns in mixer.projections[:2])
    match layer.feed_forward:
        case Dense() as part:
            yield (3 if part.gated else 2) * (hidden + part.intermediate)
        case Experts() as part if part.shared_intermediate:
            yield 3 * (hidden + part.shared_intermediate)
        case _:
            pass


def state_bytes(
    trained: float, zero: int, gpus: int, optimiser_bytes: int = OPTIMISER_BYTES["mixed"]
) -> float:
    """Weights, gradients and optimiser of trained parameters on each GPU."""
    optimiser = optimiser_bytes / (gpus if zero >= 1 else 1)
    weights = 2 / (gpus if zero >= 3 else 1)
    return trained * (optimiser + weights) + gradient_bytes(trained, zero, gpus)


def gradient_bytes(trained: float, zero: int, gpus: int) -> float:
    """Gradients of trained parameters on each GPU, in 16 bits."""
    return 2 * trained / (gpus if zero >= 2 else 1)


def memory_of(model: Model, course: Course, card: CardEntry, gpus: int) -> TrainingMemory:
    """What each of ``gpus`` GPUs holds."""
    facts = model.facts
    states = states_of(facts, trained_parameters(model, course), course, gpus)
    frozen = Amount.exact(0, "nothing")
    if course.method != "full":
        form = FORMATS["nf4" if course.method == "qlora" else "bf16"]
        share = gpus if course.zero >= 3 else 1
        frozen = Amount.around(total_bytes(facts, form) / share, 0.01, f"frozen, {form.name}")
    tokens = course.context * course.batch
    largest, inside = _most(facts)
    kept = [2 * tokens * one for one in kept_numbers(facts, inside, recomputes=course.recomputes)]
    of_logit = FUSED_LOGIT_BYTES if course.fuses_loss else LOGIT_BYTES
    logits = [tokens * facts.vocabulary * one for one in of_logit]
    low, middle, high = (round(one * GIB) for one in (LINKED_GIB if gpus > 1 else ALONE_GIB))
    memory = TrainingMemory(
        usable_bytes=card.usable_bytes,
        states=states,
        frozen=frozen,
        gathered=_gathered(facts, largest, course, gpus),
        activations=Amount(
            round((1 - INPUTS_SPREAD) * kept[0]),
            round(kept[1]),
            round((1 + INPUTS_SPREAD) * kept[2]),
            KEPT_WORDS[course.recomputes],
        ),
        logits=Amount(logits[0], logits[1], logits[2], "logits and their gradients"),
        step=_step(trained_parameters(model, course), course, gpus),
        runtime=Amount(low, middle, high, "CUDA context, buffers of the links"),
        total=states,
    )
    gradients = round(gradient_bytes(trained_parameters(model, course), course.zero, gpus))
    return msgspec.structs.replace(memory, total=_peak(memory, gradients))


def states_of(facts: ModelFacts, trained: int, course: Course, gpus: int) -> Amount:
    """Weights, gradients and Adam of what is trained, on each GPU."""
    expected = state_bytes(trained, course.zero, gpus, OPTIMISER_BYTES[course.precision])
    # At worst 16-bit gradients are kept beside the states; from stage 2 on they are divided too.
    more = gradient_bytes(trained, course.zero, gpus)
    if course.trains_tables:
        # At worst tables are trained in 32 bits, and of tied ones each end has its own copy.
        copies = trained_tables(facts) * (2 if facts.tied else 1)
        more += (16 * (copies - trained_tables(facts)) + 2 * copies) / (gpus if course.zero >= 2 else 1)
    least = state_bytes(trained, course.zero, gpus, OPTIMISER_LEAST_BYTES[course.precision])
    basis = f"Adam, ZeRO {course.zero}"
    return Amount(round(least), round(expected), round(expected + more), basis)


def _gathered(facts: ModelFacts, largest: int, course: Course, gpus: int) -> Amount:
    """What ZeRO 3 puts together of all GPUs' parts for a while, in 16 bits.

    It fetches the next layer while it computes one. The head stays whole between both ways, and where the
    model is divided as its layers are, the embedding does too. At worst the head's gradient is in 32 bits.
    """
    if course.zero < 3 or gpus == 1:
        return Amount.exact(0, "nothing")
    head = facts.vocabulary * facts.hidden
    gradient = 4 * head if course.method == "full" or course.trains_tables else 0
    return Amount(
        2 * largest,
        2 * 2 * largest + 2 * head,
        2 * 2 * largest + 2 * trained_tables(facts) + gradient,
        "two layers and the head gathered at a time",
    )


def _step(trained: int, course: Course, gpus: int) -> Amount:
    """What Adam holds beside the states while it steps."""
    step = round(STEP_BYTES[course.precision] * trained / (gpus if course.zero >= 1 else 1))
    return Amount(0, step, step, "while Adam steps, after activations are gone")


def _peak(memory: TrainingMemory, gradients: int) -> Amount:
    """The most that is held at a time, as the module's first words say; ``gradients`` in bytes."""
    always = together([memory.states, memory.frozen, memory.gathered, memory.runtime], "")
    kept = together([memory.activations, memory.logits], "")
    return Amount(
        always.low_bytes - gradients + max(gradients, kept.low_bytes),
        always.bytes + max(memory.step.bytes, kept.bytes - gradients),
        round((always.high_bytes + max(memory.step.high_bytes, kept.high_bytes)) * (1 + FRAGMENTATION)),
        "the most at a time, with 5 % of fragments at most",
    )


def kept_numbers(facts: ModelFacts, inside: int, *, recomputes: bool) -> tuple[float, float, float]:
    """How many numbers a token keeps for the way back: at least, as expected and at most."""
    if recomputes:
        inputs = facts.hidden * len(facts.layers)
        least, expected, most = (inputs + copies * inside for copies in INSIDE_COPIES)
    else:
        of_all = sum(_inside(layer, facts.hidden) for layer in facts.layers)
        least, expected, most = (copies * of_all for copies in KEPT_COPIES)
    return least, expected, most


@functools.cache
def _most(facts: ModelFacts) -> tuple[int, int]:
    """Parameters of the largest layer, and the most that the inside of one keeps for a token."""
    kinds = set(facts.layers)
    largest = max(sum(group.elements for group in of_layer(layer, facts.hidden)) for layer in kinds)
    return largest, max(_inside(layer, facts.hidden) for layer in kinds)


def _inside(layer: Layer, hidden: int) -> int:
    """Numbers a token that one layer keeps while it is recomputed, with attention that keeps no scores."""
    width = 4 * hidden
    for one in layer.mixers:
        match one:
            case GroupedAttention() as mixer:
                width += 2 * mixer.heads * mixer.head_dim + 2 * mixer.kv_heads * mixer.head_dim
            case LatentAttention() as mixer:
                width += mixer.heads * (2 * (mixer.plain_dim + mixer.rotary_dim) + 2 * mixer.value_dim)
            case Recurrence() as mixer:
                width += 2 * mixer.projections[0][1]
    match layer.feed_forward:
        case Dense() as part:
            width += 3 * part.intermediate
        case Experts() as part:
            width += 3 * (part.per_token * part.intermediate + part.shared_intermediate)
            width += 2 * part.per_token * hidden
        case None:
            pass
    return width


def counts(card: CardEntry) -> Iterator[int]:
    """How many GPUs to try: within a node, then whole nodes."""
    count = 1
    while count < card.gpus_per_node_max:
        yield count
        count *= 2
    count = card.gpus_per_node_max
    while count <= GPUS_MAX:
        yield count
        count += card.gpus_per_node_max


def on_card(model: Model, course: Course, card: CardEntry) -> Training:
    """The fewest GPUs of that card that surely do; a no if none do."""
    tried: list[Training] = []
    for gpus in counts(card):
        memory = memory_of(model, course, card, gpus)
        verdict = verdict_of(memory, card)
        tried.append(Training(card.model, gpus, verdict, memory))
        if verdict is FitVerdict.YES:
            return tried[-1]
    last = tried[-1]
    reason = (
        f"even among {last.gpus} GPUs each needs up to {gib(last.memory.total.high_bytes)}"
        f" of {gib(card.usable_bytes)}"
    )
    ways = []
    if course.zero < 3:
        ways.append("divide more: --zero 3")
    if course.batch > 1:
        ways.append("fewer sequences a GPU: --batch 1")
    ways.append("shorter sequences: --context")
    if not course.recomputes:
        ways.append("compute the inside of layers again: leave out --keep-activations")
    if not course.fuses_loss:
        ways.append("a loss that is fused with the head: --fused-loss")
    if course.method == "full":
        ways.append("train adapters: --train lora")
    decided_by = (DECIDED_BY,) if last.verdict is FitVerdict.UNSURE else ()
    return Training(card.model, last.gpus, last.verdict, last.memory, (reason,), tuple(ways), decided_by)


def verdict_of(memory: TrainingMemory, card: CardEntry) -> FitVerdict:
    """Whether so much fits on the card."""
    if memory.total.high_bytes <= card.usable_bytes:
        return FitVerdict.YES
    return FitVerdict.UNSURE if memory.total.low_bytes <= card.usable_bytes else FitVerdict.NO
