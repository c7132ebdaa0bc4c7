"""Where room for tasks of several GPUs becomes scarce.

A slot of kind k is k entirely free GPUs of one node. While there are many more slots than tasks of
that kind to come, a slot is worth nothing beyond its GPUs; when they may run out, breaking one may
cost a whole task. So a slot's bonus is its GPUs' worth times the chance that at least as many tasks
come as there are slots left (as for a newsvendor), by level of the CPU and memory the tasks need.
As 8-GPU tasks may come that were never seen, some slots of 8 are insured at a small part of that.
"""

import math
from dataclasses import dataclass

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.learn.mix import PodMixRequest
from gpufleet.engine.valuation import NEVER, ONE_GPU, SLOT_LEVELS, SlotKind, SlotLevel
from gpufleet.model.device import WHOLE_GPU_MILLI

SLOT_GPUS = (2, 4, 8)
"""The numbers of GPUs that work asks for on one node, and that nodes are built of."""
INSURED_GPUS = 8
"""Slots of a whole machine are kept a little even before any task has asked for one."""
INSURED_SHARE = 0.25
"""The part of the free capacity that unseen 8-GPU tasks might want."""

INSURED_BONUS = 0.02
"""What such a slot is worth, against one that is known to be wanted."""

SAFETY = 1.5
"""Expected tasks are counted this many times: a small mix is uncertain, refusing is dear."""

SLOT_FALL = 0.2
"""A fifth of the slots gone calls for another valuation, if they are scarce."""

NEAR = 3.0
"""Slots up to this many times the expected tasks are scarce enough to be watched."""

BONUS_STEPS = 1024
"""A bonus is rounded to this part of a GPU, so that valuations differ only where scores would."""
POISSON_MAX = 200.0
"""Above this many expected tasks the normal distribution stands in: exp(-expected) nears the least float."""
NEGLIGIBLE = 1e-18
"""Terms of a Poisson sum below this change no bit of it."""
SCARCE_LEAST = 2
"""Where fewer slots are left there is no fall to watch for."""


@dataclass(slots=True)
class Need:
    """CPU and memory of a level, and how many tasks of this level are expected."""

    cpu_milli: int
    memory_mib: int
    expected: float


@dataclass(frozen=True, slots=True)
class FreeHosts:
    """What every node has free: entirely free GPUs, CPU, memory."""

    whole_gpus: Int64Array
    cpu_milli: Int64Array
    memory_mib: Int64Array

    def slots(self, gpus: int, need: Need) -> int:
        """Slots of so many GPUs on hosts that satisfy the need."""
        enough = (self.cpu_milli >= need.cpu_milli) & (self.memory_mib >= need.memory_mib)
        return int(((self.whole_gpus // gpus) * enough).sum())


def poisson_tail(expected: float, count: int) -> float:
    """The chance that at least ``count`` come where ``expected`` are expected."""
    if count <= 0:
        return 1.0
    if expected <= 0:
        return 0.0
    if expected > POISSON_MAX:
        # Half a task less, as tasks are whole and the distribution is not.
        return 0.5 * math.erfc((count - 0.5 - expected) / math.sqrt(2 * expected))
    term = math.exp(-expected)
    below = term
    for number in range(1, count):
        term *= expected / number
        below += term
        # Beyond the mean each term is smaller than the one before: what is left out is negligible.
        if number > expected and term < NEGLIGIBLE:
            break
    return max(0.0, 1.0 - below)


def needs_of(requests: list[tuple[PodMixRequest, float]], gpus: int) -> list[Need]:
    """The levels of need of tasks with so many entire GPUs, ascending, ``expected`` counting all
    tasks that need at least this much.
    """
    chosen = sorted(
        (request.cpu_milli, request.memory_mib, expected)
        for request, expected in requests
        if request.gpus == gpus and request.gpu_milli == WHOLE_GPU_MILLI
    )
    needs: list[Need] = []
    memory = 0
    for cpu_milli, memory_mib, expected in chosen:
        # A level stands for every task that needs no more CPU, so its memory is the most that one of them
        # needs.
        memory = max(memory, memory_mib)
        needs.append(Need(min(cpu_milli, NEVER), min(memory, NEVER), expected))
    merge_closest(needs)
    for lower, higher in zip(reversed(needs[:-1]), reversed(needs[1:]), strict=True):
        lower.expected += higher.expected
    return needs


def merge_closest(needs: list[Need]) -> None:
    """While there are too many levels, join the two neighbours that differ least; the higher need
    stands for both.
    """
    if len(needs) <= SLOT_LEVELS:
        return
    most_cpu = max(1, needs[-1].cpu_milli)
    most_memory = max(1, needs[-1].memory_mib)

    def gap(place: int) -> float:
        cpu = (needs[place + 1].cpu_milli - needs[place].cpu_milli) / most_cpu
        return cpu + (needs[place + 1].memory_mib - needs[place].memory_mib) / most_memory

    gaps = [gap(place) for place in range(len(needs) - 1)]
    while len(needs) > SLOT_LEVELS:
        closest = gaps.index(min(gaps))
        needs[closest + 1].expected += needs[closest].expected
        del needs[closest], gaps[closest]
        if closest > 0:
            gaps[closest - 1] = gap(closest - 1)


def slot_kind(gpus: int, needs: list[Need], hosts: FreeHosts, part: float) -> SlotKind:
    """The bonus of each level; ``part`` scales it."""
    levels: list[SlotLevel] = []
    chance = 0.0
    for need in needs:
        left = hosts.slots(gpus, need)
        # A host that meets a higher level serves the lower ones too, so a bonus never falls with the level.
        chance = max(chance, poisson_tail(need.expected, left))
        bonus = int(round(chance * BONUS_STEPS) * (gpus * ONE_GPU // BONUS_STEPS) * part)
        low = -1
        if left >= SCARCE_LEAST:
            low = int(min(left * (1 - SLOT_FALL), NEAR * need.expected / SAFETY))
        levels.append(SlotLevel(need.cpu_milli, need.memory_mib, bonus, low))
    return SlotKind(gpus, tuple(levels))


def whole_slots(
    mix: list[tuple[PodMixRequest, float]],
    arrivals_to_come: float,
    free_worth: float,
    hosts: FreeHosts,
) -> tuple[SlotKind, ...]:
    """Every kind of slot.

    ``mix``: GPU requests with their part of all arrivals. ``arrivals_to_come``: until the free worth
    (in GPUs) is used up.
    """
    expected = [(request, part * arrivals_to_come * SAFETY) for request, part in mix]
    kinds = [slot_kind(gpus, needs_of(expected, gpus), hosts, 1.0) for gpus in SLOT_GPUS]
    per_gpu = sum(part * request.gpus for request, part in mix) / INSURED_GPUS
    insured = Need(
        cpu_milli=min(NEVER, int(sum(part * request.cpu_milli for request, part in mix) / per_gpu)),
        memory_mib=min(NEVER, int(sum(part * request.memory_mib for request, part in mix) / per_gpu)),
        expected=INSURED_SHARE * free_worth / INSURED_GPUS * SAFETY,
    )
    kinds.append(slot_kind(INSURED_GPUS, [insured], hosts, INSURED_BONUS))
    return tuple(kinds)
