"""A server of Prometheus' API over real HTTP that tells the truth about two GPUs, or lies, or hangs."""

import contextlib
import enum
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NODE, CARDS = "gpu-001", ("GPU-a", "GPU-b")
POD = {"namespace": "default", "pod": "train"}
ENGINE = "vllm:num_requests_waiting"
ALERT = {"alertname": "GPUHot", "severity": "warning", "node": NODE}
BUSY_RATIO, AGE_S, WAITING = 0.4, 3.0, 7.0
"""What is true: the busy ratio of a card, the age of its sample, and the requests that wait."""

LATE_S = 0.15
UNREACHED = "fetch series for store-1: connection refused"
"""As a server says that asks several stores, of which one is away."""

CACHED_S = 3600
"""So old are the points that a cache answers with."""

Series = list[tuple[dict[str, str], float]]


class Lie(enum.Enum):
    """How the server behaves."""

    NONE = "tells the truth"
    HANGS = "takes the connection and says nothing"
    LATE = "answers every question a little too late"
    GARBAGE = "answers with a page for people"
    CUT = "ends in the middle of an answer"
    ENDLESS = "answers without end"
    WRONG_TYPES = "answers with numbers where texts belong"
    HIGH = "tells values that are far too high"
    NEGATIVE = "tells values below zero"
    NOT_A_NUMBER = "tells NaN"
    CACHED = "answers with points of an hour ago"
    OTHER_CLUSTER = "tells of other cards on nodes of the same name"
    TWO_CLUSTERS = "tells of two clusters"
    IN_PART = "answers with what it reached, and a warning"


def truth(query: str, now_s: float) -> Series:
    """The series of a query that some part of gpufleet asks."""
    cards = [{"node": NODE, "gpu": str(at), "uuid": uuid} for at, uuid in enumerate(CARDS)]
    if ENGINE in query:
        return [({**POD, "job": "vllm"}, now_s if "timestamp(" in query else WAITING)]
    if query.startswith("ALERTS_FOR_STATE"):
        return [(ALERT, now_s - 600)]
    if query.startswith("ALERTS"):
        return [({**ALERT, "alertstate": "firing"}, 1.0)]
    if "DCGM_FI_DEV_GPU_UTIL" in query or "DCGM_FI_DEV_FB_USED" in query:
        value = 40.0 if "UTIL" in query else 9000.0
        names = {"Hostname": NODE, "modelName": "NVIDIA A100-SXM4-80GB"}
        names |= {f"exported_{name}": text for name, text in POD.items()}
        return [({**names, "UUID": one["uuid"], "gpu": one["gpu"]}, value) for one in cards]
    if query.startswith("max by (job, instance"):
        return [({"job": "dcgm", "instance": "a", "namespace": "gpu", "pod": "dcgm-exporter"}, 1.0)]
    name = re.search(r"gpufleet_(?:gpu|pod_gpu)_\w+", query)
    if name is None:
        return []
    ratio = "/" in query or name[0].endswith("_ratio")
    value = AGE_S if "sample_age" in name[0] else BUSY_RATIO if ratio else 40.0
    holder = POD if name[0].startswith("gpufleet_pod") else {}
    return [({**one, **holder}, value) for one in cards]


class LyingServer(ThreadingHTTPServer):
    """The server; ``lie`` may be changed while it runs."""

    daemon_threads = True

    def __init__(self, lie: Lie) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lie = lie
        self.asked = 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Who asked has left."""

    def series(self, query: str) -> Series:
        """The series of a query, as the lie has them."""
        found = truth(query, time.time())
        of_time = "timestamp(" in query or query.startswith("ALERTS")
        change: Callable[[float], float] = {
            Lie.HIGH: lambda value: value * 1e300,
            Lie.NEGATIVE: lambda value: -value,
            Lie.NOT_A_NUMBER: lambda _: math.nan,
        }.get(self.lie, lambda value: value)
        if not of_time or self.lie is not Lie.HIGH:
            found = [(labels, change(value)) for labels, value in found]
        elif query.startswith("ALERTS_FOR_STATE"):
            found = [(labels, value * 1e9) for labels, value in found]
        if self.lie is Lie.OTHER_CLUSTER:
            return [({**labels, "uuid": labels.get("uuid", "") + "-other"}, value) for labels, value in found]
        if self.lie is Lie.TWO_CLUSTERS:
            return [
                ({**labels, "cluster": name}, value) for labels, value in found for name in ("east", "west")
            ]
        return found


class _Handler(BaseHTTPRequestHandler):
    server: LyingServer

    def do_GET(self) -> None:
        self.server.asked += 1
        match self.server.lie:
            case Lie.HANGS:
                self.server.over.wait(60)
            case Lie.LATE:
                self.server.over.wait(LATE_S)
                self._answer(self._body())
            case Lie.GARBAGE:
                self._answer(b"<!doctype html><title>Sign in</title>")
            case Lie.CUT:
                self._answer(self._body()[:-9], missing=9)
            case Lie.ENDLESS:
                self._answer(b"")
                with contextlib.suppress(OSError):
                    while not self.server.over.is_set():
                        self.wfile.write(b" " * 2**20)
            case _:
                self._answer(self._body())

    def _body(self) -> bytes:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        first_s, last_s, step_s = (int(asked[name]) for name in ("start", "end", "step"))
        away_s = CACHED_S if self.server.lie is Lie.CACHED else 0
        result: list[dict[str, Any]] = []
        for labels, value in self.server.series(asked["query"]):
            told: object = value if self.server.lie is Lie.WRONG_TYPES else f"{value}"
            points = [[at_s - away_s, told] for at_s in range(first_s, last_s + 1, step_s)]
            result.append({"metric": labels, "values": points})
        found = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        if self.server.lie is Lie.IN_PART:
            found |= {"warnings": [UNREACHED]}
        return json.dumps(found).encode()

    def _answer(self, body: bytes, missing: int = 0) -> None:
        self.send_response(200)
        if body:
            self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


@contextlib.contextmanager
def lying(lie: Lie) -> Iterator[LyingServer]:
    """The server, for the length of the block."""
    with LyingServer(lie) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            serving.join()
