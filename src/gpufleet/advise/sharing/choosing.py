"""Which sharing a workload should have, by itself: the table of practice as a function, with its reasons.

The first rule that applies decides. A whole GPU is the answer wherever sharing is not clearly better;
``pools`` then tries what was chosen on the fleet, and may still come back to it.
"""

import enum

import msgspec

from gpufleet.advise.sharing.workload import SharingWorkload
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig import MigProfile
from gpufleet.model.mig_boards import BOARDS
from gpufleet.usage.samples import SampleKind

SUSTAINED_MILLI = 500
"""A GPU with this average use or more is in use; one with less is mostly idle and worth sharing."""
AT_ONCE_MILLI = 100
"""Small servers with this average use or more often work at the same time, so that MPS pays."""
HEADROOM_PERCENT = 10
"""Room above the highest memory that was measured: the next peak may be higher."""

TYPICAL_PERCENT = 95
"""The use that a part of a GPU must cover: rare peaks may wait for their neighbours."""

SHARE_STEP_MILLI = 50
"""Parts are rounded up to round numbers, which people read and which fill a GPU evenly."""

PERCENT = 100


class Mode(enum.Enum):
    """How a workload should get its GPU."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICE = "time-slice"
    FRACTION = "fraction"


class Choice(msgspec.Struct, frozen=True):
    """A mode with its reasons; ``gpu_milli`` and ``memory_mib`` are what one pod needs of a GPU.

    ``profile`` is the smallest MIG instance that holds it, "" if the card has none that is a part of it.
    """

    workload: SharingWorkload
    mode: Mode
    gpu_milli: int
    memory_mib: int
    profile: str
    reasons: tuple[str, ...]

    def back_to_whole(self, reason: str) -> "Choice":
        """The simple answer after all."""
        return msgspec.structs.replace(self, mode=Mode.WHOLE, reasons=(*self.reasons, reason))


def choose(workload: SharingWorkload, card_mib: int) -> Choice:
    """The mode for a workload on a card with so much memory."""
    memory_mib = -(-workload.memory_peak_mib * (PERCENT + HEADROOM_PERCENT) // PERCENT)
    typical = workload.percentile(TYPICAL_PERCENT)
    milli = max(SHARE_STEP_MILLI, -(-typical // SHARE_STEP_MILLI) * SHARE_STEP_MILLI)
    profile = smallest_profile(workload.gpu_model, typical, memory_mib, card_mib)
    mode, reason = _decided(workload, memory_mib, card_mib, profile)
    name = "" if profile is None else profile.name
    return Choice(workload, mode, milli, memory_mib, name, (reason,))


def smallest_profile(model: str, gpu_milli: int, memory_mib: int, card_mib: int) -> MigProfile | None:
    """The smallest instance with that much of the card that leaves room for another, None without one."""
    board = BOARDS.get(GpuModelName(model))
    if board is None:
        return None
    for profile in sorted(board.plain_profiles, key=lambda one: (one.memory_slices, one.compute_slices)):
        if profile.memory_slices >= board.memory_slices:
            continue
        holds_mib = profile.memory_mib or card_mib * profile.memory_slices // board.memory_slices
        enough = profile.compute_slices * WHOLE_GPU_MILLI >= gpu_milli * board.compute_slices
        if enough and holds_mib >= memory_mib:
            return profile
    return None


def _decided(
    workload: SharingWorkload, memory_mib: int, card_mib: int, profile: MigProfile | None
) -> tuple[Mode, str]:
    mean = workload.mean_milli
    if workload.gpus > 1 or workload.kind is SampleKind.DISTRIBUTED:
        return Mode.WHOLE, "training over several GPUs, or a pod with several, needs whole ones on fast links"
    if workload.kind is SampleKind.LATENCY:
        return Mode.WHOLE, "bound by latency: a neighbour would make it vary; scale replicas on queue depth"
    if workload.strict:
        return _isolated(profile)
    # The reasons for a whole GPU come first: what is left may share.
    if mean >= SUSTAINED_MILLI:
        return (
            Mode.WHOLE,
            f"used {shown(mean)} on average: from {shown(SUSTAINED_MILLI)} on a GPU is well used",
        )
    if workload.kind is SampleKind.TRAINING:
        if profile is None:
            return Mode.WHOLE, "training wants predictable speed, and no MIG instance of this card holds it"
        return Mode.MIG, f"training at {shown(mean)} on average: a MIG instance is a predictable slice"
    if memory_mib * 2 > card_mib:
        return Mode.WHOLE, f"needs {memory_mib} of {card_mib} MiB: no second one like it fits beside it"
    return _shared(workload.kind, mean)


def _isolated(profile: MigProfile | None) -> tuple[Mode, str]:
    if profile is None:
        return (
            Mode.WHOLE,
            "strict isolation, and no MIG instance of this card holds it: only a whole GPU isolates",
        )
    return Mode.MIG, "strict isolation: only MIG keeps memory, speed and faults apart on one card"


def _shared(kind: SampleKind, mean: int) -> tuple[Mode, str]:
    if kind is SampleKind.INFERENCE and mean >= AT_ONCE_MILLI:
        return (
            Mode.MPS,
            f"small servers, {shown(mean)} on average: often at work at once, which MPS lets overlap",
        )
    if kind is SampleKind.INFERENCE:
        return Mode.TIME_SLICE, f"small and spiky, {shown(mean)} on average: taking turns is enough"
    if kind is SampleKind.BATCH:
        return Mode.TIME_SLICE, f"batch inference at {shown(mean)} on average: it can wait for its turn"
    if kind in (SampleKind.NOTEBOOK, SampleKind.EXPERIMENT):
        return (
            Mode.TIME_SLICE,
            f"{kind.value}, {shown(mean)} on average: turns, with a quota and idle culling",
        )
    return Mode.FRACTION, f"used {shown(mean)} on average: a fraction books its part of compute and memory"


def shown(milli: int) -> str:
    """Thousandths of a GPU in percent."""
    return f"{milli / 10:g} %"
