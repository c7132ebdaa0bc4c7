"""A real Prometheus for tests (Debian's package has that name), with a story in it."""

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.lacking import lacking
from tests.usage.prometheus.stories import Story

READY_S = 30.0


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def prometheus(folder: Path, story: Story | None = None, config: str = "", *flags: str) -> Iterator[str]:
    """Its address, while it runs; ``config`` is its configuration file."""
    program, tool = shutil.which("prometheus"), shutil.which("promtool")
    if program is None or tool is None:
        lacking("there is no prometheus on PATH; Debian's package has that name")
    data = folder / "data"
    data.mkdir()
    if story is not None:
        (folder / "story").write_text(story.openmetrics(), encoding="utf-8")
        made = [tool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "story"), str(data)]
        subprocess.run(made, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text(config or "global: {}\n", encoding="utf-8")
    port = free_port()
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen([program, *options], stderr=log) as running:
        try:
            _wait(port, running, folder / "log", is_secure=any("web.config" in flag for flag in flags))
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()


def _wait(port: int, running: "subprocess.Popen[bytes]", log: Path, *, is_secure: bool) -> None:
    give_up = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError):
            if is_secure:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready").close()
            except urllib.error.HTTPError as not_yet:
                not_yet.close()
                raise
            return
        if running.poll() is not None or time.monotonic() > give_up:
            raise AssertionError(log.read_text(encoding="utf-8")[-2000:])
        time.sleep(0.05)
