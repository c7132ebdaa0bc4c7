"""Folders with marks and caches in them, whole ones and broken ones."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpufleet.agent.data import data_folders
from gpufleet.agent.data.data_folders import MARK, read_folders
from gpufleet.kube.objects.node_data import DataEntry

GOOD = {"name": "dataset/imagenet", "revision": "2012", "bytes": 150_000_000_000, "complete": True}


def mark(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(json.dumps({**GOOD, **changes}))
    return folder


def test_a_mark_says_what_a_folder_holds(tmp_path: Path) -> None:
    folder = mark(tmp_path / "vision" / "imagenet")
    found = read_folders([tmp_path])
    assert found.entries == (DataEntry("dataset", "imagenet", 150_000_000_000, True, str(folder), "2012"),)
    assert [(one.path, one.problem) for one in found.folders] == [(str(tmp_path), "")]


def test_a_mark_without_a_word_on_it_is_of_a_copy_that_still_arrives(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text('{"name": "model/own/net", "bytes": 10}')
    assert [(one.name, one.complete) for one in read_folders([tmp_path]).entries] == [("own/net", False)]


def test_a_folder_with_a_hub_and_marks_has_both(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--gpt2" / "snapshots" / ("b" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "weights").write_bytes(b"xyz")
    mark(tmp_path / "imagenet")
    assert [one.name for one in read_folders([tmp_path]).entries] == ["gpt2", "imagenet"]


def test_what_lies_deeper_than_two_folders_is_not_searched(tmp_path: Path) -> None:
    mark(tmp_path / "a" / "b" / "c")
    assert read_folders([tmp_path]).entries == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "imagenet"}, "name is 'imagenet', expected model/NAME or dataset/NAME"),
        ({"name": "image/x"}, "name is 'image/x', expected"),
        ({"name": "model/" + "x" * 300}, "expected model/NAME"),
        ({"name": "model/a b"}, "name is 'model/a b', expected"),
        ({"revision": "a\nb"}, "revision is 'a\\nb', expected letters"),
        ({"bytes": -1}, "bytes is -1, expected a number of bytes"),
        ({"bytes": 1 << 70}, "expected a number of bytes"),
        ({"bytes": "many"}, "Expected `int`, got `str`"),
    ],
)
def test_a_mark_that_cannot_be_is_said_of_its_folder_and_harms_no_other(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    mark(tmp_path / "bad", **changes)
    mark(tmp_path / "good")
    found = read_folders([tmp_path])
    assert [one.name for one in found.entries] == ["imagenet"]
    assert f"bad/{MARK}" in found.folders[0].problem
    assert words in found.folders[0].problem


def test_a_mark_that_is_no_file_of_its_folder_is_not_read(tmp_path: Path) -> None:
    for name in ("link", "pipe", "long"):
        (tmp_path / name).mkdir()
    (tmp_path / "link" / MARK).symlink_to(mark(tmp_path / "z") / MARK)
    os.mkfifo(tmp_path / "pipe" / MARK)
    (tmp_path / "long" / MARK).write_bytes(b" " * 5000)
    found = read_folders([tmp_path])
    assert [one.folder for one in found.entries] == [str(tmp_path / "z")]
    assert found.folders[0].problem


def test_a_linked_folder_is_not_entered(tmp_path: Path) -> None:
    mark(tmp_path / "elsewhere" / "data")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    assert read_folders([tmp_path / "root"]).entries == ()


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    found = read_folders([tmp_path / "none", mark(tmp_path / "some")])
    assert "No such file" in found.folders[0].problem
    assert found.folders[0].size_bytes is None
    assert [one.name for one in found.entries] == ["imagenet"]


def test_names_that_are_no_text_are_told_in_what_can_be_printed(tmp_path: Path) -> None:
    mark(Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff")))
    assert read_folders([tmp_path]).entries[0].folder == f"{tmp_path}/bad-\\udcff"


def test_there_is_a_limit_to_the_folders_of_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folders, "FOLDERS_MAX", 5)
    for number in range(10):
        mark(tmp_path / str(number))
    found = read_folders([tmp_path])
    assert len(found.entries) == 4
    assert "more than 5 folders: the rest is not read" in found.folders[0].problem


def test_free_room_is_told_in_steps_of_one_per_cent(tmp_path: Path) -> None:
    (folder,) = read_folders([tmp_path]).folders
    assert folder.size_bytes is not None
    assert folder.free_bytes is not None
    assert folder.free_bytes % (folder.size_bytes // 100) == 0
    assert 0 <= folder.free_bytes <= folder.size_bytes
