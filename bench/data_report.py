"""What the agent's report of data costs, and how near its estimates come to real copies.

A cache with ``MODELS`` repositories of a hub and ``DATASETS`` marked folders is read as the agent reads it
once a minute, in a process of its own: processor time, and memory beyond that of an agent without folders.
Then ``COPIES`` models of different sizes are copied, from a folder and from a web server of this machine in
turn, at most at ``COPY_BYTES_PER_S``: slow enough that the limit and not a busy processor decides, as a
network would. Before each copy it is estimated by the rate of those before it, as ``gpufleet explain`` does.
"""

import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

from bench.figures import Figure, figure, publish
from gpufleet.agent.data.bandwidth import Bandwidth
from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.data_folders import MARK
from gpufleet.agent.data.sources.servers import Server
from gpufleet.agent.data.staging_cache import StagingCache
from gpufleet.model.data import DataAsk

MODELS, DATASETS, FILES = 60, 100, 40
"""More than a node's disks hold of models, each with the files of a large one."""

READINGS, EVERY_S = 20, 60.0
COPIES, MIB = 24, 1 << 20
COPY_BYTES_PER_S = 20 * MIB
SIZES_MIB = (8, 16, 24, 32)
CORE_PCT, MEMORY_MIB, ERROR_PCT = 1.0, 20.0, 25.0
"""Limits: a core, memory, and the ninth decile of the estimates' errors."""

READ = """
import resource, sys, time
from pathlib import Path
import gpufleet.agent.assembly
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from gpufleet.agent.data.data_folders import read_folders
from gpufleet.agent.data.node_data_writer import spec_of
from gpufleet.kube.objects.node_data import encode_node_data
began = time.process_time()
for _ in range(int(sys.argv[2])):
    encode_node_data("node", spec_of(read_folders([Path(sys.argv[1])])))
used = time.process_time() - began
print(used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def fill_cache(folder: Path) -> None:
    """Repositories as the hub's libraries lay them out, and marked folders; files have no content."""
    commit = "0" * 40
    for number in range(MODELS):
        repository = folder / f"models--org--model-{number}"
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (repository / "blobs").mkdir()
        for file in range(FILES):
            blob = hashlib.sha256(f"{number} {file}".encode()).hexdigest()
            (repository / "blobs" / blob).write_bytes(b"x")
            (snapshot / f"model-{file}.safetensors").symlink_to(f"../../blobs/{blob}")
    for number in range(DATASETS):
        (folder / f"set-{number}").mkdir()
        mark = {"name": f"dataset/set-{number}", "bytes": 10**9, "complete": True}
        (folder / f"set-{number}" / MARK).write_text(json.dumps(mark))


def cost_of_reports() -> tuple[float, float]:
    """Per cent of a core, and MiB."""
    with tempfile.TemporaryDirectory() as folder:
        fill_cache(Path(folder))
        asked = [sys.executable, "-c", READ, folder, str(READINGS)]
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    used_s, more_kib = told.split()
    return 100 * float(used_s) / READINGS / EVERY_S, float(more_kib) / 1024


def fill_stores(local: Path, served: Path) -> list[tuple[DataAsk, int]]:
    """Models in turn in a folder and in a tree on a server, with their sizes."""
    random, models = Random(1), []
    piece = os.urandom(MIB)
    for number in range(COPIES):
        size_mib = random.choice(SIZES_MIB)
        name = f"model/m{number}"
        place = local / f"m{number}" if number % 2 else served / name
        place.mkdir(parents=True)
        with (place / "weights").open("wb") as file:
            for _ in range(size_mib):
                file.write(piece)
        if number % 2:
            mark = {"name": name, "bytes": size_mib * MIB, "complete": True}
            (place / MARK).write_text(json.dumps(mark))
        else:
            listed = subprocess.run(["sha256sum", "weights"], cwd=place, capture_output=True, check=True)  # noqa: S607
            (place / "SHA256SUMS").write_bytes(listed.stdout)
        models.append((DataAsk(name), size_mib * MIB))
    return models


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing of each request."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def errors_of_estimates() -> list[float]:
    """How far each estimate was from its copy, as a part of the copy's time."""
    with tempfile.TemporaryDirectory() as folder:
        local, served, cache = (Path(folder, name) for name in ("local", "served", "cache"))
        models = fill_stores(local, served)
        cache.mkdir()
        handler = functools.partial(Quiet, directory=str(served))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            staging = StagingCache([local], cache, time.time, [Server(address)])
            return list(_errors(staging, models))
        finally:
            server.shutdown()
            server.server_close()


def _errors(staging: StagingCache, models: list[tuple[DataAsk, int]]) -> Iterator[float]:
    rate = CopyRate(bytes_least=1)
    for ask, size_bytes in models:
        (entry,) = staging.lacking([ask]).entries
        known = rate.bytes_per_s
        began_s = time.monotonic()
        staging.copy(entry, Bandwidth(COPY_BYTES_PER_S, lambda: True, time.monotonic))
        took_s = time.monotonic() - began_s
        rate.copied(size_bytes, took_s)
        if known is not None:
            yield abs(size_bytes / known - took_s) / took_s


def figures() -> Iterator[Figure]:
    """All of them."""
    core_pct, memory_mib = cost_of_reports()
    yield figure("agent's report of data, of a core", core_pct, "%", "lower", CORE_PCT)
    yield figure("agent's report of data, memory", memory_mib, "MiB", "lower", MEMORY_MIB)
    errors = sorted(errors_of_estimates())
    ninth = errors[-(len(errors) // 10) - 1]
    yield figure(f"estimate of a copy, p90 of {len(errors)} errors", 100 * ninth, "%", "lower", ERROR_PCT)


if __name__ == "__main__":
    publish("data_report", list(figures()))
