"""How soon ``gpufleet web`` sends its first rows at 10,000 nodes, and what it costs while nothing happens.

The server of ``bench.frame`` plays the API server; while nothing happens each kubelet still writes its node
every five minutes, which are 33 updates a second. The page's server is asked over its stream, as a browser
asks it, and opened in Chromium where there is one. Its processor time is that of its process and of the one
that asks the engine, as the system counts it, with one browser that watches. ``bench.see`` publishes the
figures.
"""

import gzip
import statistics
import tempfile
import time
from pathlib import Path

import gpufleet.web
from bench.figures import Figure, figure
from bench.frame import NODE_COUNT, processor_s, served
from tests.chromium import CHROMIUM, chromium
from tests.web.web_server import Server, Stream, web_server

FIRST_ROWS_S, CORE_RATIO, SCRIPT_KB = 1.0, 0.02, 60.0
"""Targets: what people take for at once, what no machine notices, what a slow line brings in a second."""

REST_S = 60.0
"""Long enough for four heartbeats."""

OPENED = 5
"""So often the page is opened; the first time the browser has to read its own files."""

WHEN_PAINTED = """
new MutationObserver(() => {
  if (window.seen || !document.querySelector("tbody tr[data-key]")) return;
  window.seen = true;
  const painted = new MessageChannel();
  painted.port1.onmessage = () => { window.firstRowsMs = performance.now(); };
  requestAnimationFrame(() => painted.port2.postMessage(null));
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when a frame with rows has been drawn: a message that is sent before the frame is read after it."""

ENGINE_S = 300.0
"""The engine reads 10,000 nodes, and may compile its kernels first."""


def figures() -> list[Figure]:
    """What one browser sees, and what the server costs."""
    with served() as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "kubeconfig"
        path.write_text(
            "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
            f"clusters: [{{name: a, cluster: {{server: '{url}'}}}}]\n",
            encoding="utf-8",
        )
        # Files of the program are in the machine's memory for those who use it.
        with web_server(path, folder):
            pass
        began_s = time.monotonic()
        with web_server(path, folder) as server, server.logged_in().stream() as stream:
            stream.until(lambda one: bool(one.rows.get("nodes")))
            started_s = time.monotonic() - began_s
            stream.until(_is_whole)
            whole_s = time.monotonic() - began_s
            stream.until(lambda one: "queues_as_of" in one.source, ENGINE_S)
            first_s, all_s = _another(server)
            painted_s = _painted(server)
            rest_ratio = _at_rest(server)
    return [
        figure(f"page: start to first rows at {NODE_COUNT:,} nodes", started_s, "s", "lower"),
        figure(f"page: start to all of {NODE_COUNT:,} nodes", whole_s, "s", "lower"),
        figure("page: opened to first rows of nodes", first_s, "s", "lower", FIRST_ROWS_S),
        *(
            figure("page: opened in Chromium to first rows on the screen", one, "s", "lower", FIRST_ROWS_S)
            for one in painted_s
        ),
        figure(f"page: opened to all of {NODE_COUNT:,} nodes", all_s, "s", "lower"),
        figure("page: part of a core at rest", rest_ratio, "", "lower", CORE_RATIO),
        figure("page: all script, compressed", _script_kb(), "kB", "lower", SCRIPT_KB),
    ]


def _script_kb() -> float:
    """The script of the page as a server sends it, in 1,000 bytes."""
    files = sorted((Path(gpufleet.web.__file__).parent / "static").rglob("*.js"))
    return sum(len(gzip.compress(path.read_bytes(), 6)) for path in files) / 1000


def _is_whole(stream: Stream) -> bool:
    return len(stream.rows.get("nodes", ())) == NODE_COUNT and stream.source["state"] == "live"


def _another(server: Server) -> tuple[float, float]:
    """The seconds until a second browser has the first rows of nodes, and all."""
    browser = server.logged_in()
    began_s = time.monotonic()
    with browser.stream() as stream:
        stream.until(lambda one: bool(one.rows.get("nodes")))
        first_s = time.monotonic() - began_s
        stream.until(_is_whole)
        return first_s, time.monotonic() - began_s


def painted_problem() -> str:
    """Why the page is not opened in a browser; "" if it is."""
    return "" if CHROMIUM else "there is no Chromium"


def _painted(server: Server) -> list[float]:
    """The seconds from opening the page to its first rows on the screen; none without a browser."""
    if painted_problem():
        return []
    with chromium() as browser:
        taken_s = []
        for _ in range(OPENED):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.add_init_script(WHEN_PAINTED)
            # The token leads to the page, whose own time begins then.
            page.goto(server.url)
            page.wait_for_function("() => window.firstRowsMs", timeout=ENGINE_S * 1000)
            taken_s.append(page.evaluate("window.firstRowsMs") / 1000)
            context.close()
    return [statistics.median(taken_s)]


def _at_rest(server: Server) -> float:
    """The part of a core that the server takes while one browser watches and nothing happens."""
    with server.logged_in().stream() as stream:
        stream.until(lambda one: bool(one.seen) and one.seen[-1].name == "heartbeat")
        began_s, before_s = time.monotonic(), _with_children_s(server.process.pid)
        time.sleep(REST_S)
        return (_with_children_s(server.process.pid) - before_s) / (time.monotonic() - began_s)


def _with_children_s(pid: int) -> float:
    """The processor time of a process and of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return sum(processor_s(int(one)) for one in (str(pid), *children))
