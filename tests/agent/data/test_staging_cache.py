"""A cache that is filled from a store: what is missing, what leaves, and what another process knows of it."""

import os
from pathlib import Path

import pytest

from gpufleet.agent.data.bandwidth import Bandwidth
from gpufleet.agent.data.data_folders import read_folders
from gpufleet.agent.data.staging_cache import StagingCache
from gpufleet.agent.data.staging_errors import CopyStoppedError, NotCopiedError
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.data import DataAsk
from tests.agent.data.test_copying import content, marked, only, whole
from tests.agent.data.test_hub_cache import NEW, OLD, Cache

SET, QWEN = DataAsk("dataset/own/set"), DataAsk("model/Qwen/Qwen3-8B", "main")


class Kept:
    """A store with a dataset and a model, and an empty cache of 100,000 bytes."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.store, self.folder = folder / "store", folder / "cache"
        self.folder.mkdir(parents=True)
        hub = Cache(self.store)
        hub.add(OLD, "model.safetensors", "d1", 1000)
        hub.add(NEW, "model.safetensors", "d1", 1000)
        hub.add(NEW, "config.json", "d3", 7)
        hub.point("main", NEW)
        self.now_s, self.free_bytes = 1000.0, 90_000
        patch.setattr(os, "statvfs", lambda _: self)
        self.f_blocks, self.f_frsize = 100_000, 1
        self.cache = StagingCache([self.store], self.folder, lambda: self.now_s)

    @property
    def f_bavail(self) -> int:
        """What the disk says is free."""
        return self.free_bytes

    def bring(self, *asks: DataAsk) -> None:
        """Copy all of it."""
        self.cache.note_named(asks, frozenset(asks))
        for one in self.cache.lacking(asks).entries:
            self.cache.copy(one, lambda _: None)
        self.cache.note_named(asks, frozenset())

    def names(self) -> list[tuple[str, str]]:
        """Name and revision of what the cache has whole."""
        return [(one.name, one.revision) for one in whole(self.folder)]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(tmp_path, monkeypatch)


def test_what_the_cache_lacks_and_a_store_has_is_copied_in_the_order_of_the_wish(kept: Kept) -> None:
    (kept.store / "plain").mkdir()
    marked(kept.store / "plain")
    unknown = DataAsk("model/nobody/has")
    assert [one.name for one in kept.cache.lacking((SET, unknown, QWEN)).entries] == [
        "own/set",
        "Qwen/Qwen3-8B",
    ]
    kept.bring(QWEN, SET)
    assert kept.names() == [("own/set", "v1"), ("Qwen/Qwen3-8B", NEW)]
    assert kept.cache.lacking((QWEN, SET)).entries == ()


def test_what_was_not_named_for_the_longest_time_leaves_and_what_is_named_stays(kept: Kept) -> None:
    (kept.store / "plain").mkdir()
    marked(kept.store / "plain")
    kept.bring(QWEN)
    kept.now_s += 100
    kept.bring(SET)
    kept.free_bytes = 20_000
    more = DataEntry("model", "more", 1000, True, "/store/more")
    # Another process knows what was staged.
    again = StagingCache([kept.store], kept.folder, lambda: kept.now_s)
    assert [one.name for one in again.make_room(more, (SET,))] == ["Qwen/Qwen3-8B"]
    assert kept.names() == [("own/set", "v1")]
    assert not list((kept.folder / "models--Qwen--Qwen3-8B" / "blobs").iterdir())
    with pytest.raises(NotCopiedError, match="has no room for 9000 bytes"):
        again.make_room(DataEntry("model", "more", 9000, True, "/store/more"), (SET,))
    assert kept.names() == [("own/set", "v1")]


def test_where_all_is_to_stay_nothing_leaves(kept: Kept) -> None:
    kept.bring(QWEN)
    kept.free_bytes = 16_500
    with pytest.raises(NotCopiedError, match="has no room"):
        kept.cache.make_room(DataEntry("model", "more", 9000, True, "/store/more"), None)
    assert kept.names() == [("Qwen/Qwen3-8B", NEW)]


def test_a_revision_leaves_the_blobs_that_another_one_has(kept: Kept) -> None:
    kept.bring(DataAsk("model/Qwen/Qwen3-8B", OLD))
    kept.now_s += 100
    kept.bring(QWEN)
    kept.free_bytes = 19_500
    kept.cache.make_room(DataEntry("model", "more", 1000, True, "/store/more"), (QWEN,))
    assert kept.names() == [("Qwen/Qwen3-8B", NEW)]
    (left,) = [one for one in read_folders([kept.store]).entries if one.revision == NEW]
    assert content(only(kept.folder)) == content(left)


def test_what_users_put_into_the_cache_is_never_removed(kept: Kept) -> None:
    (kept.folder / "own").mkdir()
    marked(kept.folder / "own")
    kept.free_bytes = 20_000
    assert kept.cache.make_room(DataEntry("model", "more", 4000, True, "/store/more"), ()) == []
    assert kept.names() == [("own/set", "v1")]


def test_what_broke_off_and_is_wanted_no_more_is_removed(kept: Kept) -> None:
    def stop(_: int) -> None:
        raise CopyStoppedError

    (wanted,) = kept.cache.lacking((QWEN,)).entries
    with pytest.raises(CopyStoppedError):
        kept.cache.copy(wanted, stop)
    staging = kept.folder / ".gpufleet-staging"
    kept.cache.tidy([wanted])
    assert len(list(staging.iterdir())) == 2
    kept.cache.tidy([])
    assert [one.name for one in staging.iterdir()] == ["staged.json"]


def test_a_file_of_uses_that_cannot_be_read_removes_nothing(kept: Kept) -> None:
    kept.bring(QWEN)
    (kept.folder / ".gpufleet-staging" / "staged.json").write_text("{")
    kept.free_bytes = 16_500
    assert kept.cache.make_room(DataEntry("model", "more", 1000, True, "/store/more"), ()) == []


def test_copies_keep_to_the_bandwidth_and_end_when_nobody_wants_them() -> None:
    now_s, slept = 0.0, []
    wanted = True

    def sleep(wait_s: float) -> None:
        nonlocal now_s
        slept.append(wait_s)
        now_s += wait_s

    pace = Bandwidth(100, lambda: wanted, lambda: now_s, sleep)
    pace(100)
    now_s += 5
    for _ in range(4):
        pace(50)
    assert slept == [1.0, 0.5, 0.5, 0.5, 0.5]
    wanted = False
    with pytest.raises(CopyStoppedError):
        pace(50)
