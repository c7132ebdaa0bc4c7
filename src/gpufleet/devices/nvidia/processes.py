"""The processes on a GPU now.

The driver lists those that compute and those that draw; a process that does both is in both lists, with the
same memory. A cut GPU is asked instance by instance. How busy a process keeps the GPU is told only of those
that kept it busy at all within the last moments, so a process that is listed and not among them kept it busy
for 0 %; where the driver does not tell this (as of cut GPUs), it is absent.
"""

from collections.abc import Callable

from gpufleet.devices.nvidia.instances import instances
from gpufleet.devices.nvidia.nvml import MIB, Handle, Nvml, Process
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.devices.sample import ProcessUse

MOMENT_US = 2_000_000
"""Back to when; the driver keeps a sample at least once a second."""


def processes(nvml: Nvml, gpu: Handle, wall_s: Callable[[], float]) -> tuple[ProcessUse, ...] | None:
    """All processes of a GPU; None where the driver does not tell. ``wall_s`` is the time of day."""
    answers = Answers()
    if answers.ask(lambda: nvml.mig_mode(gpu)):
        found = _of_instances(nvml, gpu, answers)
    else:
        listed = _listed(nvml, gpu, answers)
        busy = answers.ask(lambda: _busy_pct(nvml, gpu, int(wall_s() * 1e6) - MOMENT_US))
        found = None if listed is None else _uses(listed, busy, None)
    answers.check(answered=found is not None)
    return found


def _of_instances(nvml: Nvml, gpu: Handle, answers: Answers) -> tuple[ProcessUse, ...] | None:
    found: list[ProcessUse] = []
    for one in instances(nvml, gpu, answers):
        listed = _listed(nvml, one.handle, answers)
        if listed is None:
            return None
        found += _uses(listed, None, one.uuid)
    return tuple(found)


def _listed(nvml: Nvml, handle: Handle, answers: Answers) -> list[Process] | None:
    compute = answers.ask(lambda: nvml.compute_processes(handle))
    graphics = answers.ask(lambda: nvml.graphics_processes(handle))
    if compute is None:
        return graphics
    return compute + (graphics or [])


def _uses(
    listed: list[Process], busy_pct: dict[int, int | None] | None, mig_uuid: str | None
) -> tuple[ProcessUse, ...]:
    memory: dict[int, int | None] = {}
    for one in listed:
        known = memory.get(one.pid)
        # A process that computes and draws is listed twice with the same memory, which counts once.
        memory[one.pid] = one.memory if known is None else max(known, one.memory or 0)
    return tuple(
        ProcessUse(
            pid,
            None if used is None else used // MIB,
            None if busy_pct is None else busy_pct.get(pid, 0),
            mig_uuid,
        )
        for pid, used in memory.items()
    )


def _busy_pct(nvml: Nvml, gpu: Handle, after_us: int) -> dict[int, int | None]:
    """How busy each process keeps the GPU, by its newest sample. More than 100 % is no measurement."""
    # Ascending, so that in the dictionary the newest sample of a process replaces the older ones.
    newest = sorted(nvml.process_busy(gpu, after_us), key=lambda one: one.at_us)
    return {one.pid: one.busy_pct if one.busy_pct <= 100 else None for one in newest}
