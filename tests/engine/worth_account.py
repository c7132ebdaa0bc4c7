"""An account of the default policy's score in plain Python numbers, which know no overflow.

From the valuation and the state of a node: its worth before, its worth after a placement, the difference.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gpufleet.engine.arrays import layout
from gpufleet.engine.place.score.worth import EMPTY_GPU_COST, HOST_MOST
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.valuation import (
    CURVE_STEPS,
    FULL_SHARE,
    NEVER,
    ONE_GPU,
    ONE_PRICE,
    HostCurve,
    SlotKind,
    Valuation,
)
from gpufleet.model.device import Serves
from gpufleet.model.shape import Shape

MIB = 1 << 20
FLAT = HostCurve(1, (FULL_SHARE,) * (CURVE_STEPS + 1))
PLAIN = Valuation(
    value_by_milli=tuple(milli * ONE_GPU // 1000 for milli in range(1001)),
    cpu=FLAT,
    memory=FLAT,
    price_by_model={},
    slots=(),
    model_low_milli={},
    free_low_milli=-1,
    free_high_milli=NEVER,
)
"""What the engine believes before its first valuation."""


class Gpu(NamedTuple):
    """A device as it is now."""

    row: int
    idle_milli: int
    entirely_free: bool


class Account:
    """One node in the light of a valuation."""

    def __init__(self, engine: Engine, valuation: Valuation, row: int) -> None:
        self.valuation = valuation
        tables = engine.state.store.tables
        first, count = tables.nodes[[layout.NODE_FIRST_DEVICE, layout.NODE_DEVICE_COUNT], row].tolist()
        self.gpus = [
            Gpu(
                device,
                int(tables.devices[layout.DEVICE_IDLE_MILLI, device]),
                bool(tables.devices[layout.DEVICE_WHOLE_FREE, device]),
            )
            for device in range(first, first + count)
        ]
        devices = dict(
            zip((gpu.row for gpu in self.gpus), engine.state.fleet.node_at(row).devices, strict=True)
        )
        self.link = {row: device.link_group for row, device in devices.items()}
        self.numa = {row: device.numa_node for row, device in devices.items()}
        self.cpu_milli = int(tables.resources_free[row, layout.RESOURCE_CPU_MILLI])
        self.memory_bytes = int(tables.resources_free[row, layout.RESOURCE_MEMORY_BYTES])
        codes = {code: name for name, code in engine.state.fleet.model_codes.items()}
        self.model = codes[int(tables.devices[layout.DEVICE_MODEL, first])] if count else None

    def served(self, curve: HostCurve, amount: int, remainder: int) -> int:
        """The share that lasts, read from the curve in steps of 1/256 of a step."""
        position = min(max(0, amount), HOST_MOST) * ONE_GPU * CURVE_STEPS * 256
        whole = remainder * curve.span
        if position >= whole * CURVE_STEPS * 256:
            return FULL_SHARE
        step, part = divmod(position // whole, 256)
        return curve.shares[step] + ((curve.shares[step + 1] - curve.shares[step]) * part >> 8)

    def value(self, gpus: list[Gpu], cpu_milli: int, memory_bytes: int) -> int:
        """The worth of these GPUs as far as CPU and memory last."""
        remainder = sum(self.valuation.value_by_milli[gpu.idle_milli] for gpu in gpus)
        if remainder == 0:
            return 0
        cpu = self.served(self.valuation.cpu, cpu_milli, remainder)
        memory = self.served(self.valuation.memory, memory_bytes // MIB, remainder)
        return remainder * min(cpu, memory) // FULL_SHARE

    def levels_met(self, kind: SlotKind, cpu_milli: int, memory_bytes: int) -> int:
        """How many levels the host satisfies, from the lowest on."""
        met = 0
        for level in kind.levels:
            if cpu_milli < level.cpu_milli or memory_bytes // MIB < level.memory_mib:
                break
            met += 1
        return met

    def bonus(self, gpus: list[Gpu], cpu_milli: int, memory_bytes: int) -> int:
        """What the slots are worth beyond their GPUs."""
        free = sum(gpu.entirely_free for gpu in gpus)
        total = 0
        for kind in self.valuation.slots:
            met = self.levels_met(kind, cpu_milli, memory_bytes)
            if met:
                total += free // kind.gpus * kind.levels[met - 1].bonus
        return total

    def cheapest(self, milli: int, fitting: set[int]) -> Gpu:
        """The device that loses least by a share; of equals the fullest, then the first."""
        value = self.valuation.value_by_milli
        return min(
            (gpu for gpu in self.gpus if gpu.row in fitting),
            key=lambda gpu: (
                value[gpu.idle_milli] - value[gpu.idle_milli - milli],
                gpu.idle_milli,
                gpu.row,
            ),
        )

    def after(self, wanted: Shape, fitting: set[int]) -> list[Gpu]:
        """The devices once the shape is placed."""
        if wanted.gpu.whole:
            taken = [gpu.row for gpu in self.gpus if gpu.row in fitting][: wanted.gpu.count]
            return [Gpu(gpu.row, 0, False) if gpu.row in taken else gpu for gpu in self.gpus]
        if wanted.gpu.count:
            milli = wanted.gpu.gpu_milli
            chosen = self.cheapest(milli, fitting).row
            return [
                Gpu(gpu.row, gpu.idle_milli - milli, False) if gpu.row == chosen else gpu for gpu in self.gpus
            ]
        return self.gpus

    def score(self, wanted: Shape, fitting: set[int]) -> int:
        """Minus what is lost, and a little for what is idle before."""
        gpus = self.after(wanted, fitting)
        before = (self.cpu_milli, self.memory_bytes)
        after = (
            self.cpu_milli - wanted.resources.cpu_milli,
            self.memory_bytes - wanted.resources.memory_bytes,
        )
        price = ONE_PRICE if self.model is None else self.valuation.price_by_model.get(self.model, ONE_PRICE)
        lost = (self.value(self.gpus, *before) - self.value(gpus, *after)) * price // ONE_PRICE
        lost += self.bonus(self.gpus, *before) - self.bonus(gpus, *after)
        idle = sum(gpu.idle_milli for gpu in self.gpus)
        return -lost - EMPTY_GPU_COST * idle // 1000 - self.apart(wanted, fitting)

    def apart(self, wanted: Shape, fitting: set[int]) -> int:
        """What it costs that several whole GPUs would not be together: a GPU's worth for each, half of it
        where one NUMA node has them.
        """
        if not wanted.gpu.whole or wanted.gpu.count == 1:
            return 0

        def has_enough(group_by_row: Mapping[int, int | None]) -> bool:
            sizes = Counter(group_by_row[row] for row in fitting)
            return max(sizes.values()) >= wanted.gpu.count

        halves = 0 if has_enough(self.link) else 1 if has_enough(self.numa) else 2
        return wanted.gpu.count * ONE_GPU * halves // 2


def fitting_devices(engine: Engine, wanted: Shape, row: int) -> set[int]:
    """Device rows of a node that can serve the shape (``test_fit`` proves what fits)."""
    tables = engine.state.store.tables
    found = set()
    for gpu in Account(engine, PLAIN, row).gpus:
        device = tables.devices[:, gpu.row]
        code = int(device[layout.DEVICE_MODEL])
        accepted = {engine.state.fleet.model_codes.get(model) for model in wanted.gpu.models}
        if accepted and code not in accepted:
            continue
        stated = wanted.gpu.memory_mib
        if wanted.gpu.whole:
            enough = stated is None or device[layout.DEVICE_TOTAL_MIB] >= stated
            fits = gpu.entirely_free and enough
        else:
            serves = device[layout.DEVICE_SERVES] & int(Serves.SHARE)
            fits = gpu.idle_milli >= wanted.gpu.gpu_milli and serves and device[layout.DEVICE_HEALTHY]
            if stated is not None or device[layout.DEVICE_MEMORY_SHARES]:
                total = max(0, int(device[layout.DEVICE_TOTAL_MIB]))
                mib = stated if stated is not None else total * wanted.gpu.gpu_milli // 1000
                fits = fits and mib <= device[layout.DEVICE_FREE_MIB]
        if fits:
            found.add(gpu.row)
    return found
