"""Copies from a store to a cache: whole or not at all, wherever they break off, and in the cache alone."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpufleet.agent.data.copying import copy_entry
from gpufleet.agent.data.data_folders import MARK, read_folders
from gpufleet.agent.data.staging_errors import CopyStoppedError, NotCopiedError
from gpufleet.kube.objects.node_data import DataEntry
from tests.agent.data.test_hub_cache import NEW, OLD, Cache

CALLS = ("mkdir", "open", "write", "fsync", "utime", "rename", "symlink", "unlink", "rmdir")
"""Every call by which a copy changes a disk."""


class Killed(BaseException):
    """The process ends here: nothing of ours runs any more."""


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """The process ends right before its call of this number."""
    left = itertools.count(-number)
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counting(getattr(os, name), left))
        yield


def counting(real: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
    """A call that comes no more when its number is up."""

    def call(*given: object, **named: object) -> object:
        if next(left) >= 0:
            raise Killed
        return real(*given, **named)

    return call


def marked(store: Path) -> DataEntry:
    """A dataset with a mark, with files in folders."""
    folder = store / "set"
    (folder / "part").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"a" * 5_000)
    (folder / "part" / "b.bin").write_bytes(b"b" * 300)
    mark = {"name": "dataset/own/set", "revision": "v1", "bytes": 5300, "complete": True}
    (folder / MARK).write_text(json.dumps(mark))
    return only(store)


def of_hub(store: Path) -> DataEntry:
    """A model of the hub, with a file in a folder."""
    cache = Cache(store)
    cache.add(NEW, "model.safetensors", "d1", 1000)
    cache.add(NEW, "tokenizer/vocabulary.json", "d2", 50)
    cache.point("main", NEW)
    return only(store)


def only(folder: Path) -> DataEntry:
    """The one thing that a folder has."""
    (found,) = read_folders([folder]).entries
    return found


def whole(folder: Path) -> list[DataEntry]:
    """What a folder says that it has whole."""
    return [one for one in read_folders([folder]).entries if one.complete]


def content(entry: DataEntry) -> dict[str, bytes]:
    """All files of a copy as a reader sees them, but for its mark."""
    snapshot = Path(entry.folder) / "snapshots" / entry.revision
    root = snapshot if snapshot.is_dir() else Path(entry.folder)
    files = (one for one in root.rglob("*") if one.is_file() and one.name != MARK)
    return {str(one.relative_to(root)): one.read_bytes() for one in files}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.mark.parametrize("make", [marked, of_hub])
def test_a_copy_is_what_the_store_has_and_nothing_is_left_beside_it(
    make: Callable[[Path], DataEntry], store: Path, cache: Path
) -> None:
    wanted = make(store)
    copied: list[int] = []
    copy_entry(wanted, cache, copied.append)
    found = only(cache)
    assert (found.kind, found.name, found.revision, found.branches, found.size_bytes, found.complete) == (
        wanted.kind,
        wanted.name,
        wanted.revision,
        wanted.branches,
        wanted.size_bytes,
        True,
    )
    assert content(found) == content(wanted)
    assert sum(copied) == wanted.size_bytes
    assert not list((cache / ".gpufleet-staging").iterdir())
    copy_entry(wanted, cache, copied.append)
    assert sum(copied) == wanted.size_bytes


@pytest.mark.parametrize("make", [marked, of_hub])
def test_a_copy_that_is_killed_at_any_step_never_looks_whole_and_is_completed_by_the_next_try(
    make: Callable[[Path], DataEntry], store: Path, tmp_path: Path
) -> None:
    wanted = make(store)
    for number in itertools.count():
        cache = tmp_path / f"cache-{number}"
        cache.mkdir()
        try:
            with killed_at(number):
                copy_entry(wanted, cache, lambda _: None)
        except Killed:
            pass
        else:
            break
        for one in whole(cache):
            assert content(one) == content(wanted), f"killed before call {number}"
        copy_entry(wanted, cache, lambda _: None)
        assert [content(one) for one in whole(cache)] == [content(wanted)], f"killed before call {number}"
        assert not list((cache / ".gpufleet-staging").iterdir()), f"killed before call {number}"
    assert number > 30


def test_a_second_revision_shares_the_blobs_of_the_first(store: Path, cache: Path) -> None:
    hub = Cache(store)
    hub.add(OLD, "model.safetensors", "d1", 1000)
    copied: list[int] = []
    copy_entry(only(store), cache, copied.append)
    hub.add(NEW, "model.safetensors", "d1", 1000)
    hub.add(NEW, "config.json", "d3", 7)
    (new,) = [one for one in read_folders([store]).entries if one.revision == NEW]
    copy_entry(new, cache, copied.append)
    assert copied == [1000, 7]
    assert [(one.revision, one.size_bytes) for one in whole(cache)] == [(OLD, 1000), (NEW, 1007)]


def test_a_copy_that_is_given_up_goes_on_with_the_files_that_are_there(store: Path, cache: Path) -> None:
    wanted = marked(store)

    def stop(number: int) -> None:
        if number == 300:
            raise CopyStoppedError

    with pytest.raises(CopyStoppedError):
        copy_entry(wanted, cache, stop)
    assert whole(cache) == []
    copied: list[int] = []
    copy_entry(wanted, cache, copied.append)
    assert copied == [300]
    assert content(only(cache)) == content(wanted)


@pytest.mark.parametrize("planted", [".gpufleet-staging", ".gpufleet-staging/dataset--own--set@v1"])
def test_links_in_the_cache_lead_nowhere(planted: str, store: Path, cache: Path, tmp_path: Path) -> None:
    wanted, secret = marked(store), tmp_path / "secret"
    secret.mkdir()
    (cache / planted).parent.mkdir(exist_ok=True)
    (cache / planted).symlink_to(secret)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        copy_entry(wanted, cache, lambda _: None)
    assert not list(secret.iterdir())


def test_links_in_a_store_are_not_followed(store: Path, cache: Path, tmp_path: Path) -> None:
    wanted = marked(store)
    (tmp_path / "secret").write_text("secret")
    (store / "set" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="Too many levels"):
        copy_entry(wanted, cache, lambda _: None)
    assert whole(cache) == []


def test_a_link_of_a_snapshot_that_leads_to_no_blob_is_refused(store: Path, cache: Path) -> None:
    wanted = of_hub(store)
    (Path(wanted.folder) / "snapshots" / NEW / "more").symlink_to("../../../../etc/passwd")
    with pytest.raises(NotCopiedError, match="leads to no blob"):
        copy_entry(wanted, cache, lambda _: None)


def test_a_store_that_changes_under_a_copy_gives_no_whole_copy(store: Path, cache: Path) -> None:
    wanted = marked(store)

    def change(_: int) -> None:
        (store / "set" / MARK).write_text('{"name": "dataset/own/set", "revision": "v2", "bytes": 1}')

    with pytest.raises(NotCopiedError, match="changed while it was copied"):
        copy_entry(wanted, cache, change)
    assert whole(cache) == []
