"""A service level: so many percent of the tasks of a class start within a time.

A task that never starts waited longer than any time. So that no level is held by never starting the largest
tasks, a fleet has to start every task that was not withdrawn.
"""

import msgspec

from gpufleet.kube.codec.durations import read_duration, written_duration
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import GpuRequest
from gpufleet.replay.results import TASK_CLASSES
from gpufleet.replay.task_class import task_class

WAIT = "--wait"
WITH_GPUS = "gpu"
"""The class of all tasks that ask for GPUs."""

EXPECTED = "such as p95=30m, or 8:p99=2h for tasks of eight GPUs"
PERCENT_MAX = 100
CLASSES = (WITH_GPUS, *(name for name in TASK_CLASSES if name != "cpu"))
"""Classes that a level may be for: nodes without GPUs are not planned."""


class ServiceLevel(msgspec.Struct, frozen=True, rename="camel"):
    """``percent`` of the tasks of a class start within ``within_us``."""

    percent: int
    within_us: int
    task_class: str = WITH_GPUS

    @property
    def words(self) -> str:
        """The level as a sentence has it."""
        within = f"within {written_duration(self.within_us)}" if self.within_us else "at once"
        return f"{self.percent} % of the tasks {class_words(self.task_class)} start {within}"

    def is_about(self, gpu: GpuRequest) -> bool:
        """Whether a task with this request is of the class."""
        return is_of_class(gpu, self.task_class)

    def late_allowed(self, tasks: int) -> int:
        """Of so many tasks so many may start later."""
        return tasks - -(-self.percent * tasks // PERCENT_MAX)


def class_words(name: str) -> str:
    """A class as words behind "tasks"."""
    if name == WITH_GPUS:
        return "with GPUs"
    if name == "share":
        return "with a share of a GPU"
    return f"with {name} GPU{'' if name == '1' else 's'}"


def is_of_class(gpu: GpuRequest, name: str) -> bool:
    """Whether a request is of a class of ``CLASSES``."""
    return bool(gpu.count) and name in (WITH_GPUS, task_class(gpu))


def read_level(text: str) -> ServiceLevel:
    """A level as it was typed. Raises InputError."""
    before, colon, rest = text.partition(":")
    name, level = (before, rest) if colon else (WITH_GPUS, text)
    rank, equals, within = level.partition("=")
    digits = rank.removeprefix("p")
    is_percent = rank.startswith("p") and digits.isascii() and digits.isdecimal() and len(digits) <= 3
    if not equals or not is_percent or not 1 <= int(digits) <= PERCENT_MAX:
        raise InputError("not a service level", field=WAIT, value=text, expected=EXPECTED)
    if name not in CLASSES:
        expected = f"one of {', '.join(CLASSES)}"
        raise InputError("not a class of tasks", field=WAIT, value=name, expected=expected)
    return ServiceLevel(int(digits), read_duration(within, WAIT), name)
