"""Starts programs that cannot outlive their parent, and stops them.

A child is its own session, so that Ctrl-C in a terminal reaches only the parent, which stops things in order,
and the kernel kills it when its parent's thread ends (PR_SET_PDEATHSIG). Start children from a thread that
lives as long as they shall. `supervisor` starts a cluster's programs this way, tests a kube-scheduler. A
child on a leash is the exception: the end of its standard input tells it, and it ends when it has cleared up.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpufleet.localkube.processes.process_errors import ProgramFailedError

PR_SET_PDEATHSIG = 1
"""Of sys/prctl.h."""

# etcd writes to the disk before it ends; then the program is killed.
STOP_WAIT_S = 10.0
LEASHED_STOP_WAIT_S = 40.0
"""A child on a leash clears up before it ends, which takes longer than ending."""

# The last lines of a log say why a program ended; more hide the message above.
LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 20_000
# A program is at work within its first lines, of which the longest tell of kernels that are compiled.
LOG_HEAD_BYTES = 1_000_000

_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Child:
    """A running program with its log in a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal, None while it runs."""
        return self.process.poll()

    def stop(self, wait_s: float | None = None) -> None:
        """End it: asked first, killed with its whole group where it does not listen."""
        if wait_s is None:
            wait_s = STOP_WAIT_S if self.process.stdin is None else LEASHED_STOP_WAIT_S
        if self.process.returncode is None:
            # While it has not been waited for, its id and its group's cannot be another's.
            os.kill(self.pid, signal.SIGTERM)
            os.kill(self.pid, signal.SIGCONT)  # a stopped process would not hear the other
            _wait_for_end(self.pid, wait_s)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def failed(self, what: str) -> ProgramFailedError:
        """The error that tells what happened with the end of its log."""
        return ProgramFailedError(
            f"{self.name} {what}; the end of its log, {self.log}:\n{log_tail(self.log)}"
        )


def start(
    name: str,
    command: Sequence[str],
    log: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    leashed: bool = False,
) -> Child:
    """Start a program in ``folder``, appending what it says to ``log``.

    A ``leashed`` one does not die with this process, and inherits its open files that are inheritable.
    """
    parent = os.getpid()
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=None if environment is None else dict(environment),
                stdin=subprocess.PIPE if leashed else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                close_fds=not leashed,
                preexec_fn=None if leashed else dying_with(parent),  # noqa: PLW1509  one system call, no lock
            )
        except OSError as error:
            raise ProgramFailedError(f"{name} could not be started: {error}") from error
    return Child(name, process, log)


def dying_with(parent: int) -> Callable[[], None]:
    """What a new process does first so that the kernel kills it when ``parent`` ends."""

    def ask() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # The parent ended before the kernel was asked.
            os._exit(1)

    return ask


def _wait_for_end(pid: int, wait_s: float) -> None:
    """Wait until it ends, at most ``wait_s``, and leave it to be waited for."""
    descriptor = os.pidfd_open(pid)
    try:
        select.select([descriptor], [], [], wait_s)
    finally:
        os.close(descriptor)


def has_said(log: Path, text: str) -> bool:
    """Whether the first lines of a log have this text; an empty text needs no log."""
    if not text:
        return True
    with log.open("rb") as file:
        return text.encode() in file.read(LOG_HEAD_BYTES)


def log_tail(log: Path) -> str:
    """The last lines of a log, with nothing in them that a terminal would act on."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"  (it cannot be read: {error.strerror})"
    lines = text.splitlines()[-LOG_TAIL_LINES:]
    return "\n".join("  " + _shown(line) for line in lines) or "  (it is empty)"


def _shown(line: str) -> str:
    return "".join(one if one.isprintable() or one == "\t" else ascii(one)[1:-1] for one in line)[:500]
