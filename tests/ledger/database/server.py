"""A real PostgreSQL for tests, of Debian's package ``postgresql``; no test is skipped where it is missing."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from gpufleet.ledger.database.address import DatabaseAddress, address_of

PASSWORD = secrets.token_hex(8)
START_S = 60.0
UNPRIVILEGED = "postgres" if os.geteuid() == 0 else None
"""The server refuses to run as root; the package makes this user."""


def program(name: str) -> str:
    """Where a program of PostgreSQL is: Debian keeps them out of the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, places)]))
    assert found, f"{name} is missing: install postgresql"
    return found


class Server:
    """A server of its own on a free port, whose clients need a password."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._schemas = count(1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        password = folder / "password"
        password.write_text(PASSWORD)
        data = folder / "data"
        data.mkdir()
        if UNPRIVILEGED is not None:
            for path in (folder, password, data):
                shutil.chown(path, UNPRIVILEGED)
        made = [program("initdb"), "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--username=admin"]
        made += ["--auth=scram-sha-256", f"--pwfile={password}", str(data)]
        subprocess.run(made, check=True, user=UNPRIVILEGED, capture_output=True, cwd=folder)

    def start(self) -> None:
        """Start it and wait until it answers."""
        # Tests kill processes and no machine, so what was written to the system is there afterwards.
        options = ["-cfsync=off", f"-p{self._port}", "-clisten_addresses=127.0.0.1", f"-k{self._folder}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", str(self._folder / "data"), *options],
                user=UNPRIVILEGED,
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline_s, (self._folder / "log").read_text()
                time.sleep(0.05)

    def kill(self) -> None:
        """End it amid its work: nothing is written any more, no client is told."""
        assert self._process is not None
        # It starts no more children while they are listed.
        os.kill(self._process.pid, signal.SIGSTOP)
        # Its children are in a group with the tests, so each is ended by its id.
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        children = [int(one) for one in text.split()]
        for process in (self._process.pid, *children):
            os.kill(process, signal.SIGKILL)
        self._process.wait()
        # A server that starts while one of them still holds the shared memory refuses to.
        while any(map(_lives, children)):
            time.sleep(0.01)

    def stop(self) -> None:
        """End it in order, without waiting for clients."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def url(self, schema: str = "public", user: str = "admin") -> str:
        """How clients reach a schema."""
        return f"postgresql://{user}@127.0.0.1:{self._port}/postgres?options=-csearch_path%3D{schema}"

    def schema(self) -> str:
        """A new schema."""
        name = f"s{next(self._schemas)}"
        self.say(f"CREATE SCHEMA {name}")
        return name

    def address(self, schema: str | None = None) -> DatabaseAddress:
        """A schema as the ledger reaches it; a new one unless it is named."""
        return address_of(self.url(self.schema() if schema is None else schema), "--database")

    def say(self, text: str, schema: str = "public") -> list[tuple[object, ...]]:
        """What the server answers to a statement."""
        with psycopg.connect(self.url(schema), autocommit=True) as connection:
            cursor = connection.execute(text)  # type: ignore[arg-type,call-overload,unused-ignore]
            return cursor.fetchall() if cursor.description else []


@contextmanager
def a_server() -> Iterator[Server]:
    """A running server, which is gone afterwards."""
    # Not pytest's folder, which this server's user may not enter.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _lives(process: int) -> bool:
    """Whether a process has not ended; a zombie has, and holds no memory."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
