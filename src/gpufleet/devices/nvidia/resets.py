"""How often a GPU was reset, or found again, since this process began.

No call of NVML tells that a GPU was reset, so it is concluded from what cannot happen otherwise:

- the GPU was lost, was not listed, or answered nothing before a reset, and now it answers;
- a count went back that only grows while the driver is loaded: energy drawn, or uncorrected errors.

A reset between two samples of a GPU that had nothing to count and was never seen without an answer
stays unnoticed; there was nothing against such a GPU, so nothing waits for its reset. A restart of the
machine ends this process, and the next one begins without faults. Counts are kept while the library is
closed and opened again, since a reload of the driver is one of the ways to reset a GPU.
"""

import threading

import msgspec

from gpufleet.model.identifiers import DeviceId


class _Seen(msgspec.Struct):
    resets: int = 0
    missed: bool = False
    energy_mj: int | None = None
    uncorrected_errors: int | None = None


class Resets:
    """Counts the resets of all GPUs. May be told and asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gpus: dict[DeviceId, _Seen] = {}

    def missing(self, uuid: DeviceId) -> None:
        """The GPU is lost, or answers nothing before it is reset."""
        with self._lock:
            self._gpu(uuid).missed = True

    def listed(self, uuids: set[DeviceId]) -> None:
        """Take the GPUs that the driver lists; others that were seen before are missing."""
        with self._lock:
            for uuid, gpu in self._gpus.items():
                gpu.missed |= uuid not in uuids
            for uuid in uuids:
                self._gpu(uuid)

    def answered(self, uuid: DeviceId, energy_mj: int | None, uncorrected_errors: int | None) -> int:
        """The GPU answered with these counts; how often it was reset by now."""
        with self._lock:
            gpu = self._gpu(uuid)
            # Counters begin anew with a reset, also one that was over between two samples.
            back = _went_back(gpu.energy_mj, energy_mj)
            back |= _went_back(gpu.uncorrected_errors, uncorrected_errors)
            if gpu.missed or back:
                gpu.resets += 1
            gpu.missed = False
            gpu.energy_mj, gpu.uncorrected_errors = energy_mj, uncorrected_errors
            return gpu.resets

    def count(self, uuid: DeviceId) -> int:
        """How often the GPU was reset by now."""
        with self._lock:
            return self._gpu(uuid).resets

    def _gpu(self, uuid: DeviceId) -> _Seen:
        return self._gpus.setdefault(uuid, _Seen())


def _went_back(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now < before
