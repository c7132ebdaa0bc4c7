"""The cache of a node and the stores that it is filled from: what is there, what comes and what goes.

All of it waits for disks, so the agent calls it in threads. What was staged, and when it was named last,
stands in a file of the cache; only what stands there is ever removed.
"""

import os
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.data.copying import Pace, copy_entry, digests_of, write_file
from gpufleet.agent.data.data_folders import read_folders
from gpufleet.agent.data.eviction import Room, StagedCopy, to_evict
from gpufleet.agent.data.held_folder import HeldFolder
from gpufleet.agent.data.sources.offer import DataServer, Offer
from gpufleet.agent.data.staged_names import STAGING, repository_name, staged_name
from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.kube.codec.data_copies import copy_of
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.data import DataAsk

USES_FILE = "staged.json"
USES_BYTES_MAX = 1 << 20
TRASH = "removed"
"""Where a copy goes by one rename, so that no half of it is found while it is removed."""


class Use(msgspec.Struct, frozen=True):
    """When a staged copy was named last, in seconds since 1970, and how often it came to be named."""

    named_at_s: float
    uses: int = 1


class Lacking(msgspec.Struct, frozen=True):
    """What is to be copied, in the order in which it is asked for, and which stores could not say it."""

    entries: tuple[DataEntry, ...] = ()
    problems: tuple[str, ...] = ()


class _Offered(msgspec.Struct, frozen=True):
    """What a server has of something, and when it said so."""

    offer: Offer
    server: DataServer
    at_s: float


_USES = msgspec.json.Decoder(dict[str, Use])
_ENCODER = msgspec.json.Encoder()


OFFER_KEPT_S = 600.0
"""A server that named the files of something is asked again after this, or once a copy failed."""


class StagingCache:
    """``now_s`` tells the time of day. ``servers`` are stores too, asked after the folders of ``stores``."""

    def __init__(
        self,
        stores: Sequence[Path],
        cache: Path,
        now_s: Callable[[], float],
        servers: Sequence[DataServer] = (),
    ) -> None:
        self.stores = tuple(stores)
        self.cache = cache
        self._now_s = now_s
        self._servers = tuple(servers)
        self._offered: dict[str, _Offered] = {}

    def lacking(self, asks: Sequence[DataAsk]) -> Lacking:
        """What the stores have and the cache has not."""
        there = [copy_of(one) for one in read_folders([self.cache]).entries]
        missing = [ask for ask in asks if not ask.is_met_by(there)]
        local = [one for one in read_folders(self.stores).entries if one.complete] if missing else []
        found: dict[str, DataEntry] = {}
        problems: dict[str, None] = {}
        for ask in missing:
            entry = next((one for one in local if ask.is_of(copy_of(one))), None)
            entry = entry or self._of_servers(ask, problems)
            if entry is None:
                continue
            known = found.setdefault(staged_name(entry), entry)
            if _is_of_server(known) and _is_of_server(entry):
                # The same revision by a further branch.
                found[staged_name(entry)] = entry
        return Lacking(tuple(found.values()), tuple(problems))

    def _of_servers(self, ask: DataAsk, problems: dict[str, None]) -> DataEntry | None:
        """What the first server has that has any of it."""
        fresh_s = self._now_s() - OFFER_KEPT_S
        for known in self._offered.values():
            if known.at_s > fresh_s and ask.is_of(copy_of(known.offer.entry)):
                return known.offer.entry
        for server in self._servers:
            try:
                offer = server.find(ask)
            except NotCopiedError as error:
                problems[f"{ask} is not looked up in {server.address}: {error}"] = None
                continue
            if offer is not None:
                return self._noted(_Offered(offer, server, self._now_s()), fresh_s)
        return None

    def _noted(self, new: _Offered, fresh_s: float) -> DataEntry:
        """What was offered, with all branches by which this revision was asked for lately."""
        name = staged_name(new.offer.entry)
        known = self._offered.get(name)
        if known is not None and known.at_s > fresh_s:
            branches = tuple(sorted({*known.offer.entry.branches, *new.offer.entry.branches}))
            entry = msgspec.structs.replace(new.offer.entry, branches=branches)
            offer = msgspec.structs.replace(new.offer, entry=entry)
            # Branches move, so the older answer is trusted no longer for the newer one.
            new = _Offered(offer, new.server, known.at_s)
        self._offered[name] = new
        return new.offer.entry

    def note_named(self, asks: Sequence[DataAsk], anew: Collection[DataAsk]) -> None:
        """Work names this now, some of it ``anew``; what is not there any more is forgotten."""
        with HeldFolder.at(self.cache) as cache, cache.made(STAGING) as staging:
            known, now_s, uses = _read_uses(staging), self._now_s(), {}
            for entry in read_folders([self.cache]).entries:
                name = staged_name(entry)
                if name not in known:
                    continue
                by = [ask for ask in asks if ask.is_of(copy_of(entry))]
                more = any(ask in anew for ask in by)
                uses[name] = Use(now_s, known[name].uses + more) if by else known[name]
            if uses != known:
                _write_uses(staging, uses)

    def make_room(self, wanted: DataEntry, asks: Sequence[DataAsk] | None) -> list[DataEntry]:
        """Remove copies of the least worth until there is room, none that ``asks`` names, and none for None.

        Raises NotCopiedError where there is no room.
        """
        with HeldFolder.at(self.cache) as cache, cache.made(STAGING) as staging:
            uses = _read_uses(staging)
            staged = [
                StagedCopy(one, use.named_at_s, use.uses)
                for one in read_folders([self.cache]).entries
                if one.complete and (use := uses.get(staged_name(one))) is not None
            ]
            chosen = to_evict(
                staged,
                lambda entry: asks is None or any(ask.is_of(copy_of(entry)) for ask in asks),
                self._room(),
                wanted.size_bytes,
                self._now_s(),
            )
            if chosen is None:
                raise NotCopiedError(f"{self.cache} has no room for {wanted.size_bytes} bytes")
            for one in chosen:
                _remove(one, cache, staging)
                uses.pop(staged_name(one))
                _write_uses(staging, uses)
            return chosen

    def copy(self, wanted: DataEntry, pace: Pace) -> int:
        """Copy it. Returns the bytes that were not there before.

        Raises NotCopiedError, CopyStoppedError and OSError.
        """
        copied = 0

        def counted(number: int) -> None:
            nonlocal copied
            copied += number
            pace(number)

        with HeldFolder.at(self.cache) as cache, cache.made(STAGING) as staging:
            # Noted first: a copy that is whole and not noted could never be removed.
            uses = _read_uses(staging)
            _write_uses(staging, {**uses, staged_name(wanted): Use(self._now_s())})
        offered = self._offered.pop(staged_name(wanted), None)
        if not _is_of_server(wanted):
            copy_entry(wanted, self.cache, counted)
            return copied
        if offered is None:
            raise NotCopiedError(f"what {wanted.folder} has is not known any more: the store is asked again")
        with HeldFolder.at(self.cache) as cache:
            offered.server.bring(offered.offer, cache, counted)
        return copied

    def tidy(self, wanted: Sequence[DataEntry]) -> None:
        """Remove what was broken off and is not wanted any more."""
        kept = {USES_FILE, *(staged_name(one) for one in wanted)}
        with HeldFolder.at(self.cache) as cache, cache.made(STAGING) as staging:
            for name in [one.name for one in staging.entries() if one.name not in kept]:
                staging.remove(name)

    def _room(self) -> Room:
        system = os.statvfs(self.cache)
        return Room(system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize)


def _is_of_server(entry: DataEntry) -> bool:
    """A folder of this machine is named from the root, a server's by its address."""
    return not entry.folder.startswith("/")


def _read_uses(staging: HeldFolder) -> dict[str, Use]:
    """What is known of staged copies; nothing where the file is not there or not of its form."""
    if staging.state(USES_FILE) is None:
        return {}
    read = staging.reading(USES_FILE)
    try:
        return _USES.decode(os.read(read, USES_BYTES_MAX))
    except msgspec.DecodeError:
        # What was staged is not known then, so nothing of it is removed.
        return {}
    finally:
        os.close(read)


def _write_uses(staging: HeldFolder, uses: dict[str, Use]) -> None:
    write_file(staging, USES_FILE, _ENCODER.encode(uses))


def _remove(entry: DataEntry, cache: HeldFolder, staging: HeldFolder) -> None:
    """Take a copy away by one rename, and then its bytes."""
    staging.remove(TRASH)
    name = repository_name(entry)
    found = cache.state(name)
    if cache.state(staged_name(entry)) is not None:
        cache.move(staged_name(entry), staging, TRASH)
    elif found is not None and stat.S_ISDIR(found.st_mode):
        with cache.folder(name) as repository:
            with repository.folder("snapshots") as snapshots:
                snapshots.move(entry.revision, staging, TRASH)
            with staging.folder(TRASH) as removed:
                _drop_blobs(repository, digests_of(removed))
    staging.remove(TRASH)


def _drop_blobs(repository: HeldFolder, unused: set[str]) -> None:
    """Remove these blobs but for those that another snapshot leads to.

    Others that no snapshot leads to may belong to a copy that a pod makes right now.
    """
    with repository.folder("snapshots") as snapshots, repository.folder("blobs") as blobs:
        for one in list(snapshots.entries()):
            with snapshots.folder(one.name) as snapshot:
                unused = unused - digests_of(snapshot)
        for digest in sorted(unused):
            blobs.remove(digest)
