"""A sweep over policies and seeds on a Ray cluster, with the extra ``gpufleet[ray]``.

Each run is a Ray task of one CPU. The trace files travel as bytes through Ray's object store, and what a run
writes travels back the same way, so the workers need the same gpufleet installed but no shared file system.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gpufleet import __version__
from gpufleet.files.atomic_write import atomic_write
from gpufleet.files.regular import read_regular
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.replay.results import RunResult
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import Listener, RunOutcome
from gpufleet.replay.table_bytes import TableLimits

INPUTS = ("nodes_path", "pods_path", "arrivals_path")
OUTPUTS = ("placements_path", "log_path")
LOCAL = "local"
FILE_BYTES_MAX = TableLimits().total_bytes

Files = dict[str, tuple[str, bytes]]
"""By field of the request: (file name, content)."""


def import_ray() -> Any:
    """The ray module; InputError that names the extra where it is not installed."""
    # Ray reports its use to its makers unless told before it starts.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "Ray is not installed", field="--ray", expected="pip install 'gpufleet[ray]' first"
        ) from error
    return ray


def files_of(request: RunRequest, fields: Sequence[str]) -> Files:
    """The request's files by field."""
    paths = {field: getattr(request, field) for field in fields}
    return {
        field: (Path(path).name, read_regular(path, FILE_BYTES_MAX))
        for field, path in paths.items()
        if path is not None
    }


def run_remotely(request: RunRequest, files: Files, version: str) -> tuple[RunResult, Files]:
    """On a worker: lay the files down, run, and send back what the run wrote."""
    if version != __version__:
        raise WorldError(f"a Ray worker has gpufleet {__version__}, this is {version}: they must be equal")
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        paths = {field: str(Path(folder, f"{field}-{name}")) for field, (name, _) in files.items()}
        for field, (_, content) in files.items():
            Path(paths[field]).write_bytes(content)
        for field in OUTPUTS:
            path = getattr(request, field)
            if path is not None:
                paths[field] = str(Path(folder, f"{field}-{Path(path).name}"))
        here = msgspec.structs.replace(request, **paths)
        return run(here), files_of(here, OUTPUTS)


def sweep_on_ray(
    requests: Sequence[RunRequest], address: str, jobs: int | None, listener: Listener
) -> RunOutcome:
    """Do all runs on the cluster at ``address`` ("auto", "local" to start one here, or host:port), at
    most ``jobs`` at a time if that is given.
    """
    ray = import_ray()
    outcome = RunOutcome(requests)
    with outcome.kept(), cluster(ray, address):
        collect(ray, outcome, jobs or len(requests), listener)
    return outcome


@contextmanager
def cluster(ray: Any, address: str) -> Iterator[None]:
    """Connected to a cluster; one that was started here is ended."""
    own = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **own)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise WorldError(f"--ray {address}: no Ray cluster could be reached ({reason})") from error
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise WorldError(f"--ray {address}: the cluster failed a run ({error})") from error
    finally:
        ray.shutdown()


def collect(ray: Any, outcome: RunOutcome, jobs: int, listener: Listener) -> None:
    """Keep as many runs going as there are ``jobs``, and take the results as they come."""
    files = ray.put(files_of(outcome.requests[0], INPUTS))
    remote = ray.remote(num_cpus=1)(run_remotely)
    places: dict[Any, int] = {}
    todo = list(enumerate(outcome.requests))
    while todo or places:
        while todo and len(places) < jobs:
            place, request = todo.pop(0)
            places[remote.remote(request, files, __version__)] = place
        done, _ = ray.wait(list(places), num_returns=1)
        place = places.pop(done[0])
        result, written = ray.get(done[0])
        write_here(outcome.requests[place], written)
        outcome.results[place] = result
        listener.finished(outcome.requests[place])


def write_here(request: RunRequest, written: Files) -> None:
    """What a run wrote, in its place on this machine."""
    for field, (_, content) in written.items():
        with atomic_write(getattr(request, field)) as file:
            file.buffer.write(content)
