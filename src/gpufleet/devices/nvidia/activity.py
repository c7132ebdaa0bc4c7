"""What the hardware's own counters say (NVML's GPM, Hopper and newer).

The counters run; a metric is what lies between two readings. So each GPU, and each MIG instance, keeps
the buffer of its last reading, and the first sample after opening has no metrics yet.
"""

import math
from contextlib import suppress

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.nvidia.nvml import MIB, GpmBuffer, Handle, Nvml
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.devices.sample import Activity

GRAPHICS, TENSOR, DRAM, PCIE_SENT, PCIE_RECEIVED = 1, 5, 10, 20, 21
"""NVML_GPM_METRIC_*: the first three in percent, the others in MiB/s."""

METRICS = (GRAPHICS, TENSOR, DRAM, PCIE_SENT, PCIE_RECEIVED)


class Counters:
    """The buffers of one GPU or instance: the last reading's, and one for the next."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._last: GpmBuffer | None = None
        self._spare: GpmBuffer | None = None
        self._supported: bool | None = None

    def read(self, gpu: Handle, gpu_instance: int | None, answers: Answers) -> Activity:
        """Metrics since the last reading; all None where there was none, or the GPU has no counters."""
        nvml = self._nvml
        # Asked until it is answered, and then no more: a GPU does not gain or lose its counters.
        if self._supported is None:
            self._supported = answers.ask(lambda: nvml.gpm_supported(gpu))
        if not self._supported:
            return Activity()
        return answers.ask(lambda: self._read(gpu, gpu_instance)) or Activity()

    def free(self) -> None:
        """Give the buffers back; those of a GPU that is gone went with it."""
        for buffer in (self._last, self._spare):
            if buffer is not None:
                with suppress(DriverError):
                    self._nvml.gpm_free(buffer)
        self._last = self._spare = None

    def _read(self, gpu: Handle, gpu_instance: int | None) -> Activity:
        now = self._spare if self._spare is not None else self._nvml.gpm_buffer()
        self._spare = now
        try:
            self._nvml.gpm_read(gpu, now, gpu_instance)
        except DriverError:
            # Readings before and after a gap belong to no sample: begin anew.
            self.free()
            raise
        # The two buffers change places, so that no reading allocates one.
        before, self._last, self._spare = self._last, now, self._last
        return Activity() if before is None else _activity(self._nvml.gpm_metrics(before, now, METRICS))


def _activity(metrics: dict[int, float]) -> Activity:
    # A counter that did not run between both readings makes a metric that is not a number.
    given = {metric: value for metric, value in metrics.items() if math.isfinite(value) and value >= 0}
    return Activity(
        graphics_engine_ratio=_scaled(given.get(GRAPHICS), 0.01),
        tensor_ratio=_scaled(given.get(TENSOR), 0.01),
        dram_ratio=_scaled(given.get(DRAM), 0.01),
        pcie_sent_bytes_s=_scaled(given.get(PCIE_SENT), MIB),
        pcie_received_bytes_s=_scaled(given.get(PCIE_RECEIVED), MIB),
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
