"""One replica of the scheduler: a real process behind a proxy of its own, started again when it ends.

As a Deployment does it: each life is a new process with a new identity. A life may be killed, stopped
(SIGSTOP) and made to go on. How each life ended is kept: a crash is a bug whatever the invariants say.
"""

import asyncio
import contextlib
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

import msgspec

from gpufleet.localkube.processes import child
from gpufleet.localkube.processes.child import Child
from tests.chaos.proxy import Proxy

POLL_EVERY_S = 0.1
RESTART_AFTER_S = 0.3
WORLD_FAILED = 3
LOST_LEADERSHIP = b"leadership is lost"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: proxy
contexts: [{{name: proxy, context: {{cluster: proxy, user: proxy}}}}]
clusters: [{{name: proxy, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: proxy, user: {{}}}}]
"""


class Replica:
    """A replica and its present life."""

    def __init__(self, name: str, proxy: Proxy, folder: Path, flags: tuple[str, ...]) -> None:
        self.name = name
        self.proxy = proxy
        self.lives = 0
        self.endings: list[int] = []
        self._folder = folder
        self._flags = flags
        self._child: Child | None = None
        self._stopped = False

    @property
    def identity(self) -> str:
        """What the Lease calls its present life."""
        return f"{self.name}-life-{self.lives}"

    @property
    def log(self) -> Path:
        """What the present life has written."""
        return self._folder / f"{self.identity}.log"

    @property
    def event_log(self) -> Path:
        """What the engine of the present life was told and decided."""
        return self._folder / f"{self.identity}.events"

    @property
    def crashes(self) -> list[str]:
        """Lives that ended as none should: not killed, not stopped in order, not for the Lease's sake."""
        found = []
        for number, code in enumerate(self.endings, start=1):
            log = self._folder / f"{self.name}-life-{number}.log"
            lost = code == WORLD_FAILED and LOST_LEADERSHIP in log.read_bytes()
            if not lost and code not in {0, -signal.SIGKILL}:
                found.append(f"{self.name} life {number} ended with {code}:\n{child.log_tail(log)}")
        return found

    @property
    def runs(self) -> bool:
        """Whether its present life has not ended."""
        return self._child is not None and self._child.exit_code is None

    def start(self) -> None:
        """A new life."""
        self.lives += 1
        self._stopped = False
        kubeconfig = self._folder / f"{self.name}.kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(port=self.proxy.port), encoding="utf-8")
        command = (sys.executable, "-m", "gpufleet", "scheduler", f"--kubeconfig={kubeconfig}")
        named = (f"--identity={self.identity}", f"--event-log={self.event_log}")
        self._child = child.start(self.identity, (*command, *named, *self._flags), self.log)

    async def keep(self) -> None:
        """Start it again whenever it ends, until cancelled."""
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            if self._child is not None and (code := self._child.exit_code) is not None:
                self.endings.append(code)
                await asyncio.sleep(RESTART_AFTER_S)
                self.start()

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP: it does not run and does not know it."""
        self._stopped = True
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        if self._stopped:
            self._stopped = False
            self._signal(signal.SIGCONT)

    def end(self) -> None:
        """The end of the last life."""
        if self._child is not None:
            self.go_on()
            self._child.stop()

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self.runs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, number)

    async def metrics(self) -> dict[str, float]:
        """Its metrics now, by name with labels. Raises OSError where it serves none yet."""
        text = await asyncio.to_thread(self._get, "/metrics")
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    async def readiness(self) -> str:
        """What /readyz says; OSError where it serves none yet."""
        return await asyncio.to_thread(self._get, "/readyz")

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}{path}", timeout=5) as answer:
                text: bytes = answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                text = refusal.read()
        return text.decode()

    def _port(self) -> int:
        """The port of its endpoint, as its log says."""
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                said = msgspec.json.decode(line)
                if isinstance(said, dict) and isinstance(said.get("port"), int):
                    port: int = said["port"]
                    return port
        raise ConnectionError(f"{self.identity} serves nothing yet")
