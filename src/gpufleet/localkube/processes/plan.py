"""What a supervisor is told, what it says back, and what it writes down.

Passed as JSON between three processes: the one that starts a cluster, its `supervisor`, and later commands
that look at it or end it.
"""

import enum
from pathlib import Path
from typing import TypeVar

import msgspec

from gpufleet.files.regular import read_kernel_file, read_regular

PLAN_FILE = "plan.json"
PROCESSES_FILE = "processes.json"
LOGS = "logs"
OWN_FILE_BYTES_MAX = 4 << 20
"""More than any file has that is written for a cluster: plans, keys, certificates."""

# What the starter says through the leash: the cluster is furnished; it shall live on without the starter.
FURNISHED = b"furnished\n"
KEEP = b"keep\n"

Value = TypeVar("Value", bound=msgspec.Struct)


class Stage(enum.IntEnum):
    """What has to be before a program is started."""

    NOTHING = 0
    API_READY = 1
    FURNISHED = 2
    """The starter has put everything into the cluster that shall be in it."""


class Program(msgspec.Struct, frozen=True):
    """One program to be run in the cluster's folder; ``environment`` is added to the supervisor's own.

    A ``leashed`` one outlives a killed supervisor to clear up: it learns of it from the end of its standard
    input, and has the files that the supervisor holds (lock, port, network), which so stay held until then.
    """

    name: str
    command: tuple[str, ...]
    after: Stage = Stage.NOTHING
    environment: dict[str, str] = {}
    leashed: bool = False


class ProcessPlan(msgspec.Struct, frozen=True):
    """The programs of one cluster in the order of their start, and where its API server answers."""

    name: str
    kubernetes: str
    port: int
    programs: tuple[Program, ...]
    start_limit_s: float = 60.0


class Said(msgspec.Struct, frozen=True):
    """One line from the supervisor to the starter: a program was started, all is ready, or it failed."""

    kind: str
    text: str = ""


class Process(msgspec.Struct, frozen=True):
    """A running process; ``started_ticks`` (field 22 of /proc/PID/stat) tells it from later ones."""

    pid: int
    started_ticks: int
    restarts: int = 0


class Processes(msgspec.Struct, frozen=True):
    """The processes of a cluster, as its supervisor last wrote them down."""

    supervisor: Process
    programs: dict[str, Process]


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none."""
    try:
        stat = read_kernel_file(f"/proc/{pid}/stat").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may hold anything, also brackets.
    return int(stat.rpartition(")")[2].split()[19])


def write(folder: Path, file: str, value: msgspec.Struct) -> None:
    """Write a value beside its place and rename it in, so that no process reads half of it."""
    beside = folder / f".{file}.part"
    beside.write_bytes(msgspec.json.encode(value))
    beside.replace(folder / file)


def read_processes(folder: Path) -> Processes | None:
    """What the supervisor wrote down; None if it did not come so far, or the file is broken."""
    return read(folder / PROCESSES_FILE, Processes)


def read_plan(folder: Path) -> ProcessPlan | None:
    """What the supervisor was told; None if there is no plan or the file is broken."""
    return read(folder / PLAN_FILE, ProcessPlan)


def read(path: Path, kind: type[Value]) -> Value | None:
    """What `write` wrote; None if nothing did, or the file is broken."""
    try:
        return msgspec.json.decode(read_regular(path, OWN_FILE_BYTES_MAX), type=kind)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
