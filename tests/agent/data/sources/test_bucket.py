"""A bucket: objects as ListObjectsV2 lists them, checked by SHA256SUMS or by ETags."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote

import pytest

from tests.agent.data.sources.filled_cache import bring, cache_of, contents, sums
from tests.agent.data.sources.http_store import Answer, HttpStore

FILES = {"a b.bin": b"a" * 5_000, "part/c.bin": b"c"}
SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
PAGE = 2


def md5(body: bytes) -> str:
    """The ETag of an object that was put in one piece."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def bucket(server: HttpStore, objects: Mapping[str, bytes], etag: str = "") -> None:
    """ListObjectsV2 as its reference says, two objects a page; objects are read by their paths."""
    server.put("/bucket", objects)

    def listed(target: str, _: Mapping[str, str]) -> Answer:
        path, query = target.split("?") if "?" in target else (target, "")
        if not query:
            found = server.files.get(unquote(path))
            return (404, {}, b"") if found is None else (200, {}, found)
        asked = parse_qs(query)
        keys = sorted(key for key in objects if key.startswith(asked["prefix"][0]))
        begins = int(asked.get("continuation-token", ["0"])[0])
        rows = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>{len(objects[key])}</Size>"
            f"<ETag>&quot;{etag or md5(objects[key])}&quot;</ETag></Contents>"
            for key in keys[begins : begins + PAGE]
        )
        more = begins + PAGE < len(keys)
        token = f"<NextContinuationToken>{begins + PAGE}</NextContinuationToken>" if more else ""
        text = f'<?xml version="1.0"?><ListBucketResult xmlns="{SPACE}">{rows}{token}</ListBucketResult>'
        return 200, {}, text.encode()

    server.dynamic["/bucket"] = listed


def under(prefix: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{prefix}/{name}": body for name, body in files.items()}


def test_objects_arrive_by_their_etags_or_by_a_list_of_digests(server: HttpStore, tmp_path: Path) -> None:
    plain = under("models/model/org/plain", {**FILES, "": b""})
    listed = under("models/model/org/listed@v2", {**FILES, "SHA256SUMS": sums(FILES)})
    bucket(server, {**plain, **listed, "models/model/org/plainer/x": b"x"})
    cache = cache_of(tmp_path / "cache", f"s3+{server.address}/bucket/models")
    assert bring(cache, "model/org/plain", "model/org/listed@v2", "model/org/gone") == []
    assert contents(tmp_path / "cache") == {"model/org/plain@": FILES, "model/org/listed@v2": FILES}


def test_an_object_put_in_parts_needs_a_list_of_digests(server: HttpStore, tmp_path: Path) -> None:
    parts = md5(b"parts") + "-2"
    bucket(
        server, {**under("model/m", FILES), **under("model/n", {**FILES, "SHA256SUMS": sums(FILES)})}, parts
    )
    cache = cache_of(tmp_path / "cache", f"s3+{server.address}/bucket")
    (problem,) = bring(cache, "model/m")
    assert "was put in parts, so its ETag is no digest: add" in problem
    assert bring(cache, "model/n") == []
    assert contents(tmp_path / "cache") == {"model/n@": FILES}


def test_objects_and_their_list_agree_or_nothing_is_copied(server: HttpStore, tmp_path: Path) -> None:
    bucket(server, under("model/m", {**FILES, "SHA256SUMS": sums({"a b.bin": b""})}))
    bucket_problem = bring(cache_of(tmp_path / "cache", f"s3+{server.address}/bucket"), "model/m")
    assert "has no digest of model/m/part/c.bin" in bucket_problem[0]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "answers with no list of objects"),
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>', "declarations of its own"),
    ],
)
def test_an_answer_that_is_no_list_copies_nothing(
    body: bytes, problem: str, server: HttpStore, tmp_path: Path
) -> None:
    server.dynamic["/bucket"] = lambda _, __: (200, {}, body)
    (found,) = bring(cache_of(tmp_path / "cache", f"s3+{server.address}/bucket"), "model/m")
    assert problem in found
