"""The death of the agent: before or after a write to its disk or the API server, or a call of the kubelet.

``Crashes`` counts the steps of all processes of a run. The kubelet's ends of its calls (``kubelet``) count
theirs here, too. ``run`` draws the step of death, and ``every_death`` tries each.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from gpufleet.agent.state.disk import MachineDisk
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport


class ProcessKilledError(BaseException):
    """Ends the step in which a process was killed; no code of that process runs after it."""


class Crashes:
    """Counts the steps of one process, and kills the process at one of them."""

    def __init__(self, kill: Callable[[str], None]) -> None:
        self.passed: list[str] = []
        """The steps so far, in words."""
        self.left: int | None = None
        """The number of steps until the process is killed; None while it is left alone."""
        self._kill = kill

    def is_last(self, what: str) -> bool:
        """Count a step; True where the process was killed at it."""
        self.passed.append(what)
        if self.left is None:
            return False
        self.left -= 1
        if self.left >= 0:
            return False
        self.left = None
        self._kill(what)
        return True

    def step(self, what: str) -> None:
        """Count a step that cannot wait. Raises ProcessKilledError where it is the last one."""
        if self.is_last(what):
            raise ProcessKilledError(what)

    async def step_of_call(self, what: str) -> None:
        """Count a step that can wait; where it is the last one, nothing of the process goes on."""
        if self.is_last(what):
            # Waits for ever: a process that was killed raises nothing and cleans nothing up.
            await asyncio.get_running_loop().create_future()


class CrashingDisk(MachineDisk):
    """Real files in a folder of the run. A write is not waited for: the machine itself does not die."""

    def __init__(self, crashes: Crashes) -> None:
        self._crashes = crashes

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        self._crashes.step(f"before it writes {path.name}")
        super().write(path, data, mode)
        self._crashes.step(f"after it wrote {path.name}")

    def sync(self, path: Path) -> None:
        """As Disk."""

    def move(self, source: Path, target: Path) -> None:
        """As Disk."""
        super().move(source, target)
        self._crashes.step(f"after it replaced {target.name}")

    def remove(self, path: Path) -> None:
        """As Disk."""
        self._crashes.step(f"before it removes {path.name}")
        super().remove(path)
        self._crashes.step(f"after it removed {path.name}")


class CrashingTransport:
    """A way to the API server on which the process may die, before or after the server has a write."""

    def __init__(self, inner: Transport, crashes: Crashes) -> None:
        self._inner = inner
        self._crashes = crashes

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """As Transport."""
        # A read changes nothing, so a death beside it is a death beside the step before.
        if request.method == "GET":
            return await self._inner.call(request, timeout_s=timeout_s)
        await self._crashes.step_of_call(f"before {request.method} {request.target}")
        answer = await self._inner.call(request, timeout_s=timeout_s)
        await self._crashes.step_of_call(f"after {request.method} {request.target}")
        return answer

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """As Transport."""
        return await self._inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """As Transport."""
        await self._inner.close()
