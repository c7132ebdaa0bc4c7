"""A tree of files on a web server: what sha256sum lists there comes into the cache, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.model.data import DataAsk
from tests.agent.data.sources.filled_cache import bring, cache_of, contents, sums
from tests.agent.data.sources.http_store import HttpStore

FILES = {"a.bin": b"a" * 50_000, "part/b c.bin": b"b" * 300, "empty": b""}


def with_sums(folder: Path) -> dict[str, bytes]:
    """The files, and the list that coreutils' own program writes of them."""
    for name, body in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    asked = ["sha256sum", *FILES]
    listed = subprocess.run(asked, cwd=folder, capture_output=True, check=True).stdout
    return {**FILES, "SHA256SUMS": listed}


def test_a_folder_with_the_list_of_sha256sum_arrives_whole(server: HttpStore, tmp_path: Path) -> None:
    files = with_sums(tmp_path / "made")
    server.put("/tree/dataset/own/set@v1", files)
    server.put("/tree/model/org/plain", files)
    cache = cache_of(tmp_path / "cache", f"{server.address}/tree/")
    assert bring(cache, "dataset/own/set@v1", "model/org/plain", "model/not/there") == []
    expected = {"dataset/own/set@v1": FILES, "model/org/plain@": FILES}
    assert contents(tmp_path / "cache") == expected
    assert bring(cache, "dataset/own/set@v1") == []
    assert [one.name for one in (tmp_path / "cache/.gpufleet-staging").iterdir()] == ["staged.json"]


def test_a_copy_that_broke_off_goes_on_where_it_ended(server: HttpStore, tmp_path: Path) -> None:
    weights = FILES["a.bin"]
    server.put("/model/m", {"a.bin": weights, "SHA256SUMS": sums({"a.bin": weights})})
    cache = cache_of(tmp_path / "cache", server.address)
    (wanted,) = cache.lacking([DataAsk("model/m")]).entries
    server.broken_after["/model/m/a.bin"] = 20_000
    with pytest.raises(NotCopiedError, match="broke off after 20000 of 50000 bytes"):
        cache.copy(wanted, lambda _: None)
    assert contents(tmp_path / "cache") == {}
    bring(cache, "model/m")
    assert server.asked[-1] == ("GET", "/model/m/a.bin", "bytes=20000-")
    assert contents(tmp_path / "cache") == {"model/m@": {"a.bin": weights}}


def test_a_file_that_is_whole_and_not_renamed_is_asked_for_no_more(server: HttpStore, tmp_path: Path) -> None:
    weights = FILES["a.bin"]
    server.put("/model/m", {"a.bin": weights, "SHA256SUMS": sums({"a.bin": weights})})
    cache = cache_of(tmp_path / "cache", server.address)
    server.broken_after["/model/m/a.bin"] = 20_000
    with pytest.raises(NotCopiedError, match="broke off"):
        bring(cache, "model/m")
    (part,) = (tmp_path / "cache").rglob(".a.bin.part")
    server.asked.clear()
    part.write_bytes(b"x" * len(weights))
    with pytest.raises(NotCopiedError, match="has not the digest"):
        bring(cache, "model/m")
    assert not part.exists()
    part.write_bytes(weights)
    bring(cache, "model/m")
    asked = [method for method, path, _ in server.asked if path == "/model/m/a.bin"]
    assert asked == ["HEAD", "HEAD"]
    assert contents(tmp_path / "cache") == {"model/m@": {"a.bin": weights}}


@pytest.mark.parametrize(
    "new",
    [
        {"a.bin": b"A" * 500, "part/b.bin": b"B" * 500},
        {"part/same.bin": b"s", "a.bin/was": b"file", "turned": b"folder", "part/z.bin": b"Z" * 500},
    ],
)
def test_a_store_that_is_replaced_between_two_tries_leaves_no_mix(
    new: dict[str, bytes], server: HttpStore, tmp_path: Path
) -> None:
    old = {
        "a.bin": b"a" * 500,
        "part/b.bin": b"b" * 500,
        "part/same.bin": b"s",
        "turned/c.bin": b"c",
        "part/z.bin": b"z" * 500,
    }
    server.put("/model/m", {**old, "SHA256SUMS": sums(old)})
    cache = cache_of(tmp_path / "cache", server.address)
    server.broken_after["/model/m/part/z.bin"] = 100
    with pytest.raises(NotCopiedError, match="broke off after 100 of 500 bytes"):
        bring(cache, "model/m")
    server.files.clear()
    server.put("/model/m", {**new, "SHA256SUMS": sums(new)})
    if "part/z.bin" in new:
        # The rest of the new file goes on from the old beginning, which its digest says.
        with pytest.raises(NotCopiedError, match="has not the digest"):
            bring(cache, "model/m")
    bring(cache, "model/m")
    assert contents(tmp_path / "cache") == {"model/m@": new}


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (b"0" * 64 + b"  ../../etc/passwd\n", "names the file '../../etc/passwd'"),
        (b"0" * 64 + b"  /etc/passwd\n", "names the file '/etc/passwd'"),
        (b"0" * 64 + b"  .gpufleet-data.json\n", "names the file '.gpufleet-data.json'"),
        (b"<html>not a list</html>", "line 1 is '<html>not a list</html>', expected DIGEST  PATH"),
        (b"", "has 0 files, expected 1 to 5000"),
        (b"\xff", "is no text in UTF-8"),
    ],
)
def test_a_list_that_leads_elsewhere_or_is_none_copies_nothing(
    listed: bytes, problem: str, server: HttpStore, tmp_path: Path
) -> None:
    server.put("/model/m", {"SHA256SUMS": listed})
    cache = cache_of(tmp_path / "cache", server.address)
    (found,) = bring(cache, "model/m")
    assert problem in found
    assert contents(tmp_path / "cache") == {}


def test_a_file_that_is_not_what_the_list_says_never_counts(server: HttpStore, tmp_path: Path) -> None:
    server.put("/model/m", {"a.bin": b"other", "SHA256SUMS": sums({"a.bin": b"first"})})
    cache = cache_of(tmp_path / "cache", server.address)
    with pytest.raises(NotCopiedError, match=r"has not the digest sha256:"):
        bring(cache, "model/m")
    assert contents(tmp_path / "cache") == {}
    server.put("/model/m", {"a.bin": b"first"})
    bring(cache, "model/m")
    assert contents(tmp_path / "cache") == {"model/m@": {"a.bin": b"first"}}


def test_names_that_are_no_part_of_an_address_are_never_asked_for(server: HttpStore, tmp_path: Path) -> None:
    cache = cache_of(tmp_path / "cache", server.address)
    for name in (
        "model/../secret",
        "model/a//b",
        "model/a?x=y",
        "model/a@..",
        "model/a@../../b",
        "model/a b",
    ):
        (problem,) = bring(cache, name)
        assert "that a store can have" in problem
    assert server.asked == []
