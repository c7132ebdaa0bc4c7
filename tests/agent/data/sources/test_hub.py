"""A hub: a revision arrives in the layout of its own cache, with digests that git and SHA-256 have."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpufleet.agent.data.staging_errors import NotCopiedError
from gpufleet.model.data import DataAsk
from tests.agent.data.sources.filled_cache import bring, cache_of, contents
from tests.agent.data.sources.http_store import Answer, HttpStore

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG, WEIGHTS = b'{"model_type": "small"}', b"w" * 9_000


def git_digest(content: bytes) -> str:
    """What git itself calls this file."""
    asked = ["git", "hash-object", "--stdin"]
    return subprocess.run(asked, input=content, capture_output=True, check=True).stdout.decode().strip()


def hub(server: HttpStore, kind: str = "models", resolved: str = "") -> None:
    """A repository as the hub's API shows it: a small file in git, and a large one beside it."""
    large = {"sha256": hashlib.sha256(WEIGHTS).hexdigest(), "size": len(WEIGHTS), "pointerSize": 134}
    siblings = [
        {"rfilename": "config.json", "size": len(CONFIG), "blobId": git_digest(CONFIG)},
        {"rfilename": "deep/weights.safetensors", "size": len(WEIGHTS), "blobId": "0" * 40, "lfs": large},
    ]
    body = json.dumps({"id": "org/name", "sha": COMMIT, "private": False, "siblings": siblings}).encode()

    def api(target: str, _: Mapping[str, str]) -> Answer:
        named = ("main", "v1", "refs%2Fpr%2F1", COMMIT)
        known = target in (f"/api/{kind}/org/name/revision/{one}?blobs=true" for one in named)
        return (200, {}, body) if known else (401, {}, b'{"error": "Repository not found"}')

    server.dynamic["/api/"] = api
    server.put(
        f"{resolved}/org/name/resolve/{COMMIT}", {"config.json": CONFIG, "deep/weights.safetensors": WEIGHTS}
    )


@pytest.mark.parametrize(("kind", "resolved"), [("model", ""), ("dataset", "/datasets")])
def test_a_revision_arrives_as_the_hubs_libraries_lay_it_out(
    kind: str, resolved: str, server: HttpStore, tmp_path: Path
) -> None:
    hub(server, f"{kind}s", resolved)
    cache = cache_of(tmp_path / "cache", f"hf+{server.address}")
    assert bring(cache, f"{kind}/org/name", f"{kind}/org/gone") == []
    repository = tmp_path / f"cache/{kind}s--org--name"
    snapshot = repository / "snapshots" / COMMIT
    assert (snapshot / "config.json").readlink() == Path(f"../../blobs/{git_digest(CONFIG)}")
    assert (snapshot / "deep/weights.safetensors").readlink().parts[:4] == ("..", "..", "..", "blobs")
    assert (repository / "refs/main").read_text() == COMMIT
    files = {"config.json": CONFIG, "deep/weights.safetensors": WEIGHTS}
    assert contents(tmp_path / "cache") == {f"{kind}/org/name@{COMMIT}": files}
    # The branch and the commit are both there now, and nothing is asked for.
    server.asked.clear()
    assert bring(cache, f"{kind}/org/name@main", f"{kind}/org/name@{COMMIT}") == []
    assert server.asked == []


@pytest.mark.parametrize("names", [("v1", "main"), (COMMIT, "main", "v1"), ("main", COMMIT, "v1")])
def test_all_names_of_one_commit_arrive_with_one_copy(
    names: tuple[str, ...], server: HttpStore, tmp_path: Path
) -> None:
    hub(server)
    cache = cache_of(tmp_path / "cache", f"hf+{server.address}")
    assert bring(cache, *(f"model/org/name@{one}" for one in names)) == []
    branches = tmp_path / "cache/models--org--name/refs"
    assert {one.name: one.read_text() for one in branches.iterdir()} == {"main": COMMIT, "v1": COMMIT}
    assert cache.lacking([DataAsk("model/org/name", one) for one in names]).entries == ()


def test_a_copy_that_no_server_offers_any_more_says_so(server: HttpStore, tmp_path: Path) -> None:
    hub(server)
    cache = cache_of(tmp_path / "cache", f"hf+{server.address}")
    (wanted,) = cache.lacking([DataAsk("model/org/name")]).entries
    cache.copy(wanted, lambda _: None)
    with pytest.raises(NotCopiedError, match=f"what {wanted.folder} has is not known any more"):
        cache.copy(wanted, lambda _: None)


def test_a_branch_with_a_slash_is_asked_for_by_its_commit(server: HttpStore, tmp_path: Path) -> None:
    hub(server)
    cache = cache_of(tmp_path / "cache", f"hf+{server.address}")
    (problem,) = bring(cache, "model/org/name@refs/pr/1")
    assert (
        f"the branch refs/pr/1 has a slash, and no copy can be named by it: name its commit, {COMMIT}"
        in problem
    )
    assert contents(tmp_path / "cache") == {}
    assert bring(cache, f"model/org/name@{COMMIT}") == []


def test_a_blob_that_is_not_what_its_digest_says_is_no_part_of_the_cache(
    server: HttpStore, tmp_path: Path
) -> None:
    hub(server)
    server.files[f"/org/name/resolve/{COMMIT}/config.json"] = b'{"model_type": "other"}'
    cache = cache_of(tmp_path / "cache", f"hf+{server.address}")
    with pytest.raises(NotCopiedError, match="has not the digest git:"):
        bring(cache, "model/org/name")
    assert contents(tmp_path / "cache") == {}
    assert list((tmp_path / "cache/models--org--name/blobs").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"sha": "main"}, "names the commit 'main'"),
        (
            {"sha": COMMIT, "siblings": [{"rfilename": "../x", "size": 1, "blobId": "0" * 40}]},
            "names the file",
        ),
        ({"sha": COMMIT, "siblings": [{"rfilename": "x", "blobId": "0" * 40}]}, "has None bytes"),
        ({"sha": COMMIT, "siblings": [{"rfilename": "x", "size": 1}]}, "'' is no digest of git"),
        ([], "answers with no repository"),
    ],
)
def test_an_answer_that_is_no_repository_copies_nothing(
    said: object, problem: str, server: HttpStore, tmp_path: Path
) -> None:
    server.dynamic["/api/"] = lambda _, __: (200, {}, json.dumps(said).encode())
    (found,) = bring(cache_of(tmp_path / "cache", f"hf+{server.address}"), "model/org/name")
    assert problem in found
