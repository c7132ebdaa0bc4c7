"""A real Alertmanager for tests, with the rules of inhibition that ship."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.alerts.promtool import FOLDER, Labels
from tests.lacking import lacking
from tests.usage.prometheus.server import free_port

READY_S = 30.0
ROUTE = "route: {receiver: none}\nreceivers: [{name: none}]\n"
"""What a configuration needs at least."""


@contextlib.contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """Its address, while it runs."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        lacking("there is no alertmanager on PATH; Debian's package is prometheus-alertmanager")
    config = folder / "alertmanager.yml"
    config.write_text(ROUTE + (FOLDER / "inhibit-rules.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    options = [
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        # It is alone.
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen([program, *options], stderr=log) as running:
        try:
            _wait(address, running, folder / "log")
            yield f"http://{address}"
        finally:
            running.terminate()


def _wait(address: str, running: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://{address}/-/ready").close()
            return
        if running.poll() is not None or time.monotonic() > give_up:
            raise AssertionError(log.read_text(encoding="utf-8")[-2000:])
        time.sleep(0.05)


SEEN_S = 30.0
LAST_SOURCE: Labels = {"alertname": "NodeCordoned", "cluster": "the-last", "node": "n1", "severity": "none"}
LAST_TARGET: Labels = {"alertname": "GPUHot", "cluster": "the-last", "node": "n1", "severity": "warning"}
"""A pair of which the first silences the second. It is sent after all others."""


def send(address: str, firing: Sequence[Labels]) -> None:
    """Tell it of alerts, as Prometheus does, and wait until its rules of inhibition have seen them all.

    Alertmanager answers before its inhibitor has read the alerts. The inhibitor reads them in the order in
    which they came, so it has seen all others once it knows the pair that is sent last.
    """
    _post(address, firing)
    _post(address, [LAST_SOURCE, LAST_TARGET])
    give_up = time.monotonic() + SEEN_S
    while LAST_TARGET in _not_inhibited(address):
        assert time.monotonic() < give_up, "Alertmanager's inhibitor does not read what is sent"
        time.sleep(0.05)


def _post(address: str, firing: Sequence[Labels]) -> None:
    body = json.dumps([{"labels": labels} for labels in firing]).encode()
    request = urllib.request.Request(  # noqa: S310  our own
        f"{address}/api/v2/alerts", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request).close()  # noqa: S310  our own


def not_inhibited(address: str) -> list[Labels]:
    """The alerts that it sends on."""
    return [one for one in _not_inhibited(address) if one != LAST_SOURCE]


def _not_inhibited(address: str) -> list[Labels]:
    with urllib.request.urlopen(f"{address}/api/v2/alerts") as answer:  # noqa: S310  our own
        alerts: list[dict[str, Any]] = json.load(answer)
    return [one["labels"] for one in alerts if not one["status"]["inhibitedBy"]]
