"""No server is asked but the store's own and those that the operator allows beside it."""

from pathlib import Path

import pytest

from gpufleet.agent.data.sources.http_reader import HttpReader, origin_of
from gpufleet.agent.data.staging_errors import NotCopiedError
from tests.agent.data.sources.filled_cache import bring, cache_of, contents, sums
from tests.agent.data.sources.http_store import HttpStore, serving


def test_a_redirect_is_followed_to_allowed_servers_alone(server: HttpStore, tmp_path: Path) -> None:
    with serving() as other:
        server.put("/model/m", {"SHA256SUMS": sums({"a.bin": b"bytes"})})
        server.redirects["/model/m/a.bin"] = f"{other.address}/elsewhere"
        other.files["/elsewhere"] = b"bytes"
        (problem,) = bring(cache_of(tmp_path / "one", server.address), "model/m")
        assert f"leads to {other.address}, which --data-redirect does not allow (302)" in problem
        assert other.asked == []
        bring(cache_of(tmp_path / "two", server.address, allowed=(other.address,)), "model/m")
        assert contents(tmp_path / "two") == {"model/m@": {"a.bin": b"bytes"}}


def test_a_redirect_to_a_file_of_the_machine_is_refused(server: HttpStore) -> None:
    server.redirects["/list"] = "file:///etc/passwd"
    with pytest.raises(NotCopiedError):
        HttpReader(server.address).small(f"{server.address}/list")


def test_a_token_stays_with_the_server_that_it_is_for(server: HttpStore) -> None:
    seen: list[str] = []

    def other_answer(_: str, headers: object) -> tuple[int, dict[str, str], bytes]:
        seen.append(headers.get("Authorization", ""))  # type: ignore[attr-defined]
        return 200, {}, b"x"

    with serving() as other:
        other.dynamic["/"] = other_answer
        server.redirects["/list"] = f"{other.address}/list"
        reader = HttpReader(server.address, (other.address,))
        assert reader.small(f"{server.address}/list", {"Authorization": "Bearer secret"}) == b"x"
    assert seen == [""]


def test_a_list_without_end_is_not_read(server: HttpStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufleet.agent.data.sources.http_reader.SMALL_BYTES_MAX", 1000)
    server.files["/list"] = b"x" * 1001
    with pytest.raises(NotCopiedError, match="has more than 1000 bytes"):
        HttpReader(server.address).small(f"{server.address}/list")


@pytest.mark.parametrize("length", ["9" * 4301, "1e3", "-1", ""])
def test_a_length_that_is_none_is_said_of_the_file(length: str, server: HttpStore) -> None:
    # Python's int() refuses more than 4300 digits (sys.set_int_max_str_digits).
    server.files["/a.bin"] = b"bytes"
    server.length = length
    with pytest.raises(NotCopiedError, match=r"/a\.bin says no Content-Length that a file can have"):
        HttpReader(server.address).size_bytes(f"{server.address}/a.bin")


def test_an_origin_has_a_port_in_any_case() -> None:
    # RFC 6454, 4: the scheme's own port where none is written.
    assert origin_of("https://Host.example/a?b") == origin_of("https://host.example:443")
    assert origin_of("https://host.example") != origin_of("http://host.example")
