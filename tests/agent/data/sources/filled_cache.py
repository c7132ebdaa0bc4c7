"""A cache that is filled from servers, as the agent does it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from gpufleet.agent.data.sources.servers import Server
from gpufleet.agent.data.staging_cache import StagingCache
from gpufleet.model.data import DataAsk
from tests.agent.data.test_copying import content, whole


def cache_of(folder: Path, *stores: str, allowed: tuple[str, ...] = ()) -> StagingCache:
    """An empty cache with these servers as stores."""
    folder.mkdir(exist_ok=True)
    return StagingCache([], folder, lambda: 1000.0, [Server(one, allowed) for one in stores])


def bring(cache: StagingCache, *names: str) -> list[str]:
    """Copy what is asked for. Returns what could not be looked up."""
    asks = [DataAsk(name, revision) for name, _, revision in (one.partition("@") for one in names)]
    found = cache.lacking(asks)
    for one in found.entries:
        cache.copy(one, lambda _: None)
    return list(found.problems)


def contents(folder: Path) -> dict[str, dict[str, bytes]]:
    """The files of each whole copy, by its name and revision."""
    return {f"{one.kind}/{one.name}@{one.revision}": content(one) for one in whole(folder)}


def sums(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS, as coreutils' sha256sum writes it."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    return "".join(lines).encode()
