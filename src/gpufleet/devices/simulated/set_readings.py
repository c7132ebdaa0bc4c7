"""Readings of a simulated GPU that are set from outside: errors, heat, slower clocks, a narrow link.

A healthy GPU counts none of them. ``machine`` keeps one ``SetReadings`` for each GPU, ``orders`` changes it
while the machine runs, ``backend`` puts it into samples. Names and bounds stand in ``NAMES``.
"""

from gpufleet.devices.clock_events import ThrottleReason
from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.sample import LinkErrorKind

CELSIUS, PCIE_WIDTH = "celsius", "pcie-width"
UNCORRECTED, REPLAYS, REMAP_PENDING = "uncorrected-errors", "pcie-replays", "remap-pending"
THROTTLE = {f"throttle-{reason.value.replace('_', '-')}": reason for reason in ThrottleReason}
LINK_ERRORS = {f"nvlink-{kind.value}": kind for kind in LinkErrorKind}
# The widest PCI Express has; what drivers count in 32 bits.
WIDTH_MOST, COUNT_MOST = 16, 2**32 - 1
NAMES: dict[str, tuple[int, int]] = {
    CELSIUS: (0, 200),
    PCIE_WIDTH: (1, WIDTH_MOST),
    UNCORRECTED: (0, COUNT_MOST),
    REPLAYS: (0, COUNT_MOST),
    REMAP_PENDING: (0, 1),
    **dict.fromkeys(THROTTLE, (0, 100)),
    **dict.fromkeys(LINK_ERRORS, (0, COUNT_MOST)),
}
"""Smallest and largest value of each. Those of slower clocks are percent of the time from now on."""


class SetReadings:
    """What is set of one GPU, and how long its clocks have been lowered."""

    def __init__(self, at_s: float) -> None:
        self.values: dict[str, int] = {}
        self.throttled_ns: dict[ThrottleReason, float] = dict.fromkeys(ThrottleReason, 0.0)
        self._counted_until_s = at_s

    def set(self, name: str, value: int, now_s: float) -> None:
        """From now on the GPU tells this. Raises MachineError with the names and bounds there are."""
        bounds = NAMES.get(name)
        if bounds is None:
            raise MachineError(
                "no such reading", field="reading", value=name, expected="one of " + ", ".join(NAMES)
            )
        if not bounds[0] <= value <= bounds[1]:
            expected = f"{bounds[0]} to {bounds[1]}"
            raise MachineError("not possible", field=name, value=value, expected=expected)
        self.count(now_s)
        self.values[name] = value

    def count(self, now_s: float) -> None:
        """Count the time with lowered clocks up to now."""
        passed_s = max(0.0, now_s - self._counted_until_s)
        self._counted_until_s = max(now_s, self._counted_until_s)
        for name, reason in THROTTLE.items():
            # Percent of a second are 10 ms.
            self.throttled_ns[reason] += passed_s * self.values.get(name, 0) * 10_000_000

    def reset(self, now_s: float) -> None:
        """After a reset of the GPU: causes are gone, what the driver counted stays, but for memory errors."""
        self.count(now_s)
        stays = {REPLAYS, *LINK_ERRORS}
        self.values = {name: value for name, value in self.values.items() if name in stays}

    def link_errors(self) -> dict[LinkErrorKind, int]:
        """Errors of NVLink by kind."""
        return {kind: self.values.get(name, 0) for name, kind in LINK_ERRORS.items()}
