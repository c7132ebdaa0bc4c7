"""How soon ``gpufleet top`` shows its first lines at 10,000 nodes, and how soon it answers a key.

The view runs at a pseudo-terminal, as a person starts it, and asks a server of this module over HTTP: lists
in pages, no agent, and watches in which nothing happens but that each kubelet writes its node now and then.
The server is a process of its own with its pages made before, so a server's own work is not in the figures.
``bench.see`` publishes them.

Run as ``python -m bench.frame`` it is the server: it prints its port, and ends with its input.
"""

import contextlib
import datetime as dt
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from bench.doctor import GPUS, Body, node, pod_spec, report
from bench.figures import Figure, figure
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.kube.client import PAGE_SIZE
from gpufleet.kube.resources import NODE_DEVICES, NODES, PODS, Kind
from tests.top.pty_terminal import PtyTerminal

NODE_COUNT, POD_COUNT = 10_000, 20_000
"""Nodes of eight GPUs, each with two pods of one GPU."""
FIRST_LINES_S, KEY_S = 1.0, 0.1
"""Targets: what people take for at once, and for without delay."""
KEYS = 60
"""Enough for the slowest twentieth to be three of them."""
WATCH_S = 600.0
"""Longer than the measurement."""

REPORT_EVERY_S = 300.0
"""So often a kubelet writes the status of its node where nothing changes (``nodeStatusReportFrequency``)."""

AT_ONCE = 10
"""So many of these updates come together."""

IMAGES = [
    {"names": [f"registry.example/team/image-{number}@sha256:{number:064x}"], "sizeBytes": 1_000_000 + number}
    for number in range(50)
]
"""A kubelet names as many in the status (``nodeStatusMaxImages``)."""


def pod(number: int) -> Body:
    """A pod of one GPU that runs."""
    metadata = {
        "name": f"train-{number:05}",
        "namespace": f"team-{number % 50}",
        "creationTimestamp": "2026-11-22T11:00:00Z",
    }
    spec = {**pod_spec(), "nodeName": f"node-{number % NODE_COUNT}", "schedulerName": "gpufleet"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def pages() -> dict[str, list[bytes]]:
    """The pages of each list, by its path."""
    kinds: dict[Kind, list[Body]] = {
        NODES: [node(number) for number in range(NODE_COUNT)],
        NODE_DEVICES: [report(number) for number in range(NODE_COUNT)],
        PODS: [pod(number) for number in range(POD_COUNT)],
    }
    found = {}
    for kind, objects in kinds.items():
        for number, one in enumerate(objects):
            one["metadata"] |= {"uid": f"{kind.plural}-{number}", "resourceVersion": "1"}
        parts = [objects[first : first + PAGE_SIZE] for first in range(0, len(objects), PAGE_SIZE)]
        found[kind.collection()] = [
            msgspec.json.encode(
                {
                    "metadata": {
                        "resourceVersion": "1",
                        **({"continue": str(number + 1)} if number + 1 < len(parts) else {}),
                    },
                    "items": part,
                }
            )
            for number, part in enumerate(parts)
        ]
    # Of all other kinds that decisions depend on there are none.
    empty = msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": []})
    return {one.kind.collection(): [empty] for one in WATCHED} | found


class Handler(BaseHTTPRequestHandler):
    """Answers lists and watches; everything else is not there."""

    protocol_version = "HTTP/1.1"
    pages: dict[str, list[bytes]]

    def do_GET(self) -> None:
        """Answer one request."""
        asked = urlsplit(self.path)
        query = parse_qs(asked.query)
        known = self.pages.get(asked.path)
        if known is None:
            self._send(404, b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404}')
        elif "watch" in query:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if asked.path == NODES.collection():
                self._tell_that_nodes_are_well()
            else:
                time.sleep(WATCH_S)
        else:
            self._send(200, known[int(query.get("continue", ["0"])[0])])

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _tell_that_nodes_are_well(self) -> None:
        """Each node in its turn."""
        pause_s = REPORT_EVERY_S * AT_ONCE / NODE_COUNT
        for first in range(0, round(WATCH_S / pause_s) * AT_ONCE, AT_ONCE):
            time.sleep(pause_s)
            lines = b"".join(_update(number) + b"\n" for number in range(first, first + AT_ONCE))
            self.wfile.write(b"%x\r\n%s\r\n" % (len(lines), lines))

    def _send(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _update(number: int) -> bytes:
    """What the watch says when a node was written for the ``number``th time since the lists."""
    its = node(number % NODE_COUNT)
    its["metadata"] |= {"uid": f"nodes-{number % NODE_COUNT}", "resourceVersion": str(number + 2)}
    seen = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    its["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": seen}]
    its["status"]["images"] = IMAGES
    return msgspec.json.encode({"type": "MODIFIED", "object": its})


class Server(ThreadingHTTPServer):
    """A server that takes it as usual that the view leaves in the middle of an answer."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


def serve() -> None:
    """Serve until the input ends."""
    Handler.pages = pages()
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The address of a server that lasts as long as the block."""
    command = [sys.executable, "-m", "bench.frame"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise SystemExit("the server has no output")
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def figures() -> list[Figure]:
    """What one session at a terminal takes."""
    with served() as url, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(
            "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
            f"clusters: [{{name: a, cluster: {{server: '{url}'}}}}]\n",
            encoding="utf-8",
        )
        environment = as_installed(Path(folder) / "bytecode") | {"KUBECONFIG": str(path), "TERM": "xterm"}
        # Files of the program are in the machine's memory for those who use it, and compiled.
        _session(environment)
        session = _session(environment)
    slowest_s = statistics.quantiles(session.keys_s, n=20)[-1]
    return [
        figure(f"first lines at {NODE_COUNT:,} nodes", session.first_s, "s", "lower", FIRST_LINES_S),
        figure("first lines, processor time of the view", session.first_processor_s, "s", "lower"),
        figure(f"all of {NODE_COUNT:,} nodes and {POD_COUNT:,} pods", session.whole_s, "s", "lower"),
        figure("key to frame, 95th percentile", slowest_s, "s", "lower", KEY_S),
        figure("a key and what is measured meanwhile, processor time", session.key_processor_s, "s", "lower"),
    ]


def as_installed(bytecode: Path) -> dict[str, str]:
    """The environment in which a program's modules are compiled once, as an installer compiles them."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def processor_s(pid: int) -> float:
    """The processor time of a process so far, as the system counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Session(NamedTuple):
    """The seconds until the first lines and until all is there, and of each key; and those of the processor
    for the first lines and, on average, for a key.
    """

    first_s: float
    first_processor_s: float
    whole_s: float
    keys_s: list[float]
    key_processor_s: float


def _session(environment: dict[str, str]) -> Session:
    """What one session takes."""
    began_s = time.monotonic()
    with PtyTerminal([sys.executable, "-m", "gpufleet", "top"], environment) as terminal:
        terminal.until(lambda screen: "\nnode-" in screen, every_s=0.005)
        first_s, first_processor_s = time.monotonic() - began_s, processor_s(terminal.program.pid)
        all_gpus = f"{NODE_COUNT} nodes, {NODE_COUNT * GPUS} GPUs, {POD_COUNT} held"
        terminal.until(lambda screen: all_gpus in screen and "live" in screen, every_s=0.02)
        whole_s = time.monotonic() - began_s
        keys_s = []
        before_s = processor_s(terminal.program.pid)
        for number in range(KEYS):
            # Each sorts all lines anew, and says so at the right of the last row.
            is_new = _differs_from(terminal.screen.splitlines()[-1])
            pressed_s = time.monotonic()
            terminal.press("s")
            terminal.until(is_new, every_s=0.001)
            keys_s.append(time.monotonic() - pressed_s)
            time.sleep(0.05 + 0.001 * number)
        key_processor_s = (processor_s(terminal.program.pid) - before_s) / KEYS
        terminal.press("q")
        terminal.ended()
    return Session(first_s, first_processor_s, whole_s, keys_s, key_processor_s)


def _differs_from(row: str) -> Callable[[str], bool]:
    """Whether the last row of a screen is another one."""
    return lambda screen: screen.splitlines()[-1] != row


if __name__ == "__main__":
    serve()
