"""A hub's cache as huggingface_hub writes it: blobs, refs, and snapshots of links."""

from pathlib import Path

import pytest

from gpufleet.agent.data.data_folders import read_folders
from gpufleet.agent.data.hub_cache import repository_of
from gpufleet.kube.objects.node_data import DataEntry

OLD, NEW = "1" * 40, "a" * 40
REPOSITORY = "models--Qwen--Qwen3-8B"


class Cache:
    """A cache to which copies are added as the libraries do."""

    def __init__(self, folder: Path, repository: str = REPOSITORY) -> None:
        self.root = folder
        self.folder = folder / repository
        for name in ("blobs", "refs", "snapshots"):
            (self.folder / name).mkdir(parents=True)

    def add(self, revision: str, name: str, digest: str, size_bytes: int | None) -> None:
        """A file of a revision; without a size its blob is not there."""
        if size_bytes is not None:
            (self.folder / "blobs" / digest).write_bytes(b"x" * size_bytes)
        link = self.folder / "snapshots" / revision / name
        link.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(link.relative_to(self.folder).parts) - 1)
        link.symlink_to(f"{up}blobs/{digest}")

    def point(self, branch: str, revision: str) -> None:
        """A branch or tag of the hub."""
        (self.folder / "refs" / branch).write_text(revision)

    def entries(self) -> list[DataEntry]:
        """What is found."""
        return list(read_folders([self.root]).entries)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_a_copy_has_the_size_of_its_blobs_and_the_branch_that_pointed_to_it(cache: Cache) -> None:
    cache.add(NEW, "model.safetensors", "d1", 1000)
    cache.add(NEW, "tokenizer/vocabulary.json", "d2", 50)
    cache.point("main", NEW)
    assert cache.entries() == [
        DataEntry("model", "Qwen/Qwen3-8B", 1050, True, str(cache.folder), NEW, ("main",))
    ]


def test_a_blob_of_two_revisions_counts_for_each(cache: Cache) -> None:
    cache.add(OLD, "model.safetensors", "d1", 1000)
    cache.add(NEW, "model.safetensors", "d1", 1000)
    cache.add(NEW, "config.json", "d3", 7)
    assert [(one.revision, one.size_bytes) for one in cache.entries()] == [(OLD, 1000), (NEW, 1007)]


def test_a_copy_is_incomplete_while_a_blob_arrives(cache: Cache) -> None:
    cache.add(NEW, "config.json", "d3", 7)
    (cache.folder / "blobs" / "d1.incomplete").write_bytes(b"xx")
    assert [one.complete for one in cache.entries()] == [False]


def test_a_copy_is_incomplete_where_a_blob_is_gone(cache: Cache) -> None:
    cache.add(NEW, "config.json", "d3", 7)
    cache.add(NEW, "model.safetensors", "d1", None)
    assert [(one.complete, one.size_bytes) for one in cache.entries()] == [(False, 7)]


def test_files_in_place_of_links_count_too(cache: Cache) -> None:
    snapshot = cache.folder / "snapshots" / NEW
    snapshot.mkdir()
    (snapshot / "config.json").write_bytes(b"x" * 9)
    assert [(one.complete, one.size_bytes) for one in cache.entries()] == [(True, 9)]


def test_an_empty_snapshot_is_no_complete_copy(cache: Cache) -> None:
    (cache.folder / "snapshots" / NEW).mkdir()
    assert [one.complete for one in cache.entries()] == [False]


def test_a_link_that_leads_elsewhere_is_not_followed(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 4000)
    snapshot = cache.folder / "snapshots" / NEW
    snapshot.mkdir()
    (snapshot / "weights").symlink_to(tmp_path / "secret")
    assert [(one.complete, one.size_bytes) for one in cache.entries()] == [(False, 0)]


def test_a_ref_that_holds_no_commit_names_no_branch(cache: Cache) -> None:
    cache.add(NEW, "config.json", "d3", 7)
    cache.point("main", "no commit")
    (cache.folder / "refs" / "huge").write_bytes(b"a" * 5000)
    assert [one.branches for one in cache.entries()] == [()]


@pytest.mark.parametrize(
    ("folder", "repository"),
    [
        ("models--gpt2", ("model", "gpt2")),
        ("models--Qwen--Qwen3-8B", ("model", "Qwen/Qwen3-8B")),
        ("datasets--HuggingFaceFW--fineweb", ("dataset", "HuggingFaceFW/fineweb")),
        ("spaces--a--b", None),
        ("models--a--b--c", None),
        ("models--", None),
        ("models--..--b", None),
        ("models", None),
    ],
)
def test_a_folder_names_its_repository(folder: str, repository: tuple[str, str] | None) -> None:
    assert repository_of(folder) == repository
