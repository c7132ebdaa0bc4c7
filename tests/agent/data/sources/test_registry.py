"""A registry: artifacts come as files, by tag and by digest, from the real program and from a stand-in."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

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


class Guarded:
    """A stand-in that gives each repository tokens of its own, as the specification of distribution says.

    ``refusal`` is the status of its refusals, ``uses`` how often a token counts.
    """

    def __init__(self, server: HttpStore, refusal: int = 401, uses: int = 100) -> None:
        self.server, self.refusal, self.uses = server, refusal, uses
        self.asked: list[str] = []
        """What tokens were asked for."""
        self.left: dict[str, int] = {}
        self.kept = dict(server.files)
        server.dynamic["/v2/"] = self.answer
        server.dynamic["/token"] = self.token

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        """A manifest or a blob for who has the repository's token."""
        repository = target.removeprefix("/v2/").rsplit("/", 2)[0]
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if not token.startswith(f"{repository}#") or not self.left[token]:
            scope = f"repository:{repository}:pull"
            challenge = f'Bearer realm="{self.server.address}/token",service="registry",scope="{scope}"'
            return self.refusal, {"WWW-Authenticate": challenge}, b""
        self.left[token] -= 1
        return 200, {}, self.kept[target]

    def token(self, target: str, headers: Mapping[str, str]) -> Answer:
        """A token for anyone who comes without one."""
        self.asked.append(target)
        if "Authorization" in headers:
            return 400, {}, b""
        repository = parse_qs(urlsplit(target).query)["scope"][0].split(":")[1]
        token = f"{repository}#{len(self.asked)}"
        self.left[token] = self.uses
        return 200, {}, json.dumps({"token": token}).encode()


def test_a_registry_that_asks_for_a_token_gets_one_for_anyone(server: HttpStore, tmp_path: Path) -> None:
    put_into_stand_in(server, "org/name", "v1", FILES)
    guarded = Guarded(server)
    assert bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "model/org/name@v1") == []
    assert guarded.asked == ["/token?service=registry&scope=repository%3Aorg%2Fname%3Apull"]
    assert contents(tmp_path / "cache") == {"model/org/name@v1": FILES}


@pytest.mark.parametrize("refusal", [401, 403])
def test_each_repository_is_asked_with_its_own_token(refusal: int, server: HttpStore, tmp_path: Path) -> None:
    put_into_stand_in(server, "org/one", "v1", FILES)
    put_into_stand_in(server, "org/two", "v1", {"other": b"x"})
    guarded = Guarded(server, refusal)
    cache = cache_of(tmp_path / "cache", f"oci+{server.address}")
    assert bring(cache, "model/org/one@v1", "model/org/two@v1") == []
    assert contents(tmp_path / "cache") == {"model/org/one@v1": FILES, "model/org/two@v1": {"other": b"x"}}
    assert len(guarded.asked) == 2


def test_a_token_that_ends_during_a_copy_is_got_anew(server: HttpStore, tmp_path: Path) -> None:
    put_into_stand_in(server, "org/name", "v1", FILES)
    # One use is the manifest's; each of the two files needs a token of its own then.
    guarded = Guarded(server, uses=1)
    assert bring(cache_of(tmp_path / "cache", f"oci+{server.address}"), "model/org/name@v1") == []
    assert contents(tmp_path / "cache") == {"model/org/name@v1": FILES}
    assert len(guarded.asked) == 3


@pytest.mark.parametrize("realm", ["http://127.0.0.1:9/token", "http://127.0.0.1:99999/token", "http://["])
def test_a_challenge_sends_the_agent_to_no_other_server(
    realm: str, server: HttpStore, tmp_path: Path
) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{realm}",service="registry"'}
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
