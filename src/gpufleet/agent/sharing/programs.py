"""Programs of the node that the agent runs: by absolute path, with an environment that is all theirs.

Nothing of the agent's own environment is handed on, and nothing that a pod says is ever an argument.
``Programs`` is the seam at which tests put programs of their own.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Protocol

import msgspec

# The end of what a program said is shown to people.
OUTPUT_MAX = 4096


class Ran(msgspec.Struct, frozen=True):
    """How a program ended; ``output`` is what it said on both ways, the end of it where that was long."""

    code: int
    output: str = ""


class Programs(Protocol):
    """Runs programs of the node, each within a limit of time."""

    async def run(
        self, argv: Sequence[str], environment: Mapping[str, str], said: str, limit_s: float
    ) -> Ran:
        """Run one to its end, with ``said`` on its standard input.

        Raises OSError where it cannot be started, and TimeoutError past the limit, when it is killed.
        """
        ...


class MachinePrograms:
    """The programs of this machine."""

    async def run(
        self, argv: Sequence[str], environment: Mapping[str, str], said: str, limit_s: float
    ) -> Ran:
        """As Programs."""
        # A file and no pipe: a daemon that goes on may keep it open.
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=dict(environment),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                cwd="/",
                # What it leaves running is not ended with the agent.
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(limit_s):
                    await process.communicate(said.encode())
            finally:
                # Where it is too late, or the agent ends, no program is left that hangs.
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            return Ran(process.returncode or 0, _last_words(output))


class SimulatedPrograms:
    """Stands for programs of a driver on a simulated machine: each runs and has nothing to say."""

    async def run(
        self, argv: Sequence[str], environment: Mapping[str, str], said: str, limit_s: float
    ) -> Ran:
        """As Programs."""
        del argv, environment, said, limit_s
        return Ran(0)


def _last_words(output: BinaryIO) -> str:
    end = output.seek(0, os.SEEK_END)
    output.seek(max(0, end - OUTPUT_MAX))
    return output.read().decode("utf-8", "replace").strip()
