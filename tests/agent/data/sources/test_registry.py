"""A registry: artifacts come as files, by tag and by digest, from the real program and from a stand-in."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.agent.data.sources.filled_cache import bring, cache_of, contents
from tests.agent.data.sources.http_store import Answer, HttpStore
from tests.agent.data.sources.registries import (
    RAW,
    manifest_of,
    put_into_stand_in,
    real_registry,
)

FILES = {"config.json": b"{}", "weights/a.safetensors": b"w" * 70_000}


def test_an_artifact_of_a_real_registry_arrives_whole(tmp_path: Path) -> None:
    with real_registry(tmp_path) as registry:
        first = registry.push("models/org/name", "v1", FILES)
        registry.push("models/org/name", "latest", {"other": b"x"})
        cache = cache_of(tmp_path / "cache", f"oci+{registry.address}/models")
        digest = hashlib.sha256(first).hexdigest()
        wanted = ("model/Org/Name@v1", "model/org/name", f"model/org/name@{digest}", "model/org/gone")
        assert bring(cache, *wanted) == []
    assert contents(tmp_path / "cache") == {
        "model/Org/Name@v1": FILES,
        "model/org/name@": {"other": b"x"},
        f"model/org/name@{digest}": FILES,
    }


def test_an_artifact_of_the_stand_in_arrives_whole(server: HttpStore, tmp_path: Path) -> None:
    put_into_stand_in(server, "org/name", "v1", FILES)
    assert bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "dataset/org/name@v1") == []
    assert contents(tmp_path / "cache") == {"dataset/org/name@v1": FILES}


def test_a_registry_that_asks_for_a_token_gets_one_for_anyone(server: HttpStore, tmp_path: Path) -> None:
    put_into_stand_in(server, "org/name", "v1", FILES)
    kept = dict(server.files)

    def guarded(target: str, headers: Mapping[str, str]) -> Answer:
        if target.startswith("/v2/") and headers.get("Authorization") != "Bearer for-anyone":
            scope = "repository:org/name:pull"
            challenge = f'Bearer realm="{server.address}/token",service="registry",scope="{scope}"'
            return 401, {"WWW-Authenticate": challenge}, b""
        return 200, {}, kept[target]

    server.dynamic["/v2/"] = guarded
    asked: list[str] = []

    def token(target: str, _: Mapping[str, str]) -> Answer:
        asked.append(target)
        return 200, {}, b'{"token": "for-anyone"}'

    server.dynamic["/token"] = token
    assert bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "model/org/name@v1") == []
    assert asked == ["/token?service=registry&scope=repository%3Aorg%2Fname%3Apull"]
    assert contents(tmp_path / "cache") == {"model/org/name@v1": FILES}


def test_a_challenge_sends_the_agent_to_no_other_server(server: HttpStore, tmp_path: Path) -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="http://127.0.0.1:9/token",service="registry"'}
    server.dynamic["/v2/"] = lambda _, __: (401, challenge, b"")
    (problem,) = bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "model/m")
    assert "is refused: 401" in problem


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (manifest_of({"../x": b"x"}), "names the file '../x'"),
        (
            manifest_of({"x": b"x"}, "application/vnd.oci.image.layer.v1.tar+gzip"),
            "that is no file with a name",
        ),
        (
            json.dumps({"layers": [{"digest": "sha256:0", "size": 1, "mediaType": RAW}]}).encode(),
            "no file with",
        ),
        (manifest_of({}), "has 0 files"),
        (b"{", "answers with no manifest"),
    ],
)
def test_a_manifest_that_is_none_of_files_copies_nothing(
    body: bytes, problem: str, server: HttpStore, tmp_path: Path
) -> None:
    server.files["/v2/m/manifests/latest"] = body
    (found,) = bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "model/m")
    assert problem in found
    assert contents(tmp_path / "cache") == {}
