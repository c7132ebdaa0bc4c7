"""The same sweep on a Ray cluster, with the extra ``gpufleet[ray]``.

Each run is a Ray task of one CPU. The trace files travel as bytes through Ray's object store, so the
workers need gpufleet installed but no shared file system.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.model.errors import InputError
from gpufleet.replay.results import RunResult
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import Listener, Outcome

Files = dict[str, tuple[str, bytes]]


def import_ray() -> Any:
    """The ray module; InputError that names the extra where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "Ray is not installed", field="--ray", expected="pip install 'gpufleet[ray]' first"
        ) from error
    return ray


def trace_files(request: RunRequest) -> Files:
    """The request's input files by field: (file name, content)."""
    paths = {
        "nodes_path": request.nodes_path,
        "pods_path": request.pods_path,
        "arrivals_path": request.arrivals_path,
    }
    return {
        field: (Path(path).name, Path(path).read_bytes()) for field, path in paths.items() if path is not None
    }


def run_remotely(request: RunRequest, files: Files) -> RunResult:
    """On a worker: lay the files down and run."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        paths: dict[str, str] = {}
        for field, (name, content) in files.items():
            path = Path(folder, f"{field}-{name}")
            path.write_bytes(content)
            paths[field] = str(path)
        return run(msgspec.structs.replace(request, **paths))


def sweep_on_ray(requests: Sequence[RunRequest], address: str, listener: Listener) -> Outcome:
    """Do all runs on the cluster at ``address`` ("auto", "local" to start one here, or host:port)."""
    ray = import_ray()
    outcome = Outcome(requests)
    ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    try:
        collect(ray, outcome, listener)
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        ray.shutdown()
    return outcome


def collect(ray: Any, outcome: Outcome, listener: Listener) -> None:
    """Start every run and take the results as they come."""
    files = ray.put(trace_files(outcome.requests[0]))
    remote = ray.remote(num_cpus=1)(run_remotely)
    places = {remote.remote(request, files): place for place, request in enumerate(outcome.requests)}
    waiting = list(places)
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        place = places[done[0]]
        outcome.results[place] = ray.get(done[0])
        listener.finished(outcome.requests[place])
