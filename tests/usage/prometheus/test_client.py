"""How the client ends when the server, or what stands before it, misbehaves; the server is the test's own."""

import contextlib
import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from gpufleet.cli.main import main
from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.answer import PrometheusAnswer
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.window import Window
from tests.usage.prometheus.server import free_port

GOOD = json.dumps(
    # The example of a range query in Prometheus' documentation (prometheus/docs/querying/api.md), shortened.
    {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {
                    "metric": {"__name__": "up", "job": "prometheus", "instance": "localhost:9090"},
                    "values": [[1435781430.781, "1"], [1435781445.781, "0.5"], [1435781460.781, "NaN"]],
                }
            ],
        },
        "warnings": ["a store is down"],
    }
).encode()


DOCUMENTED = Window(1435781400, 1435781460, 60)
NOTHING = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


class _Handler(http.server.BaseHTTPRequestHandler):
    status: ClassVar[int] = 200
    body: ClassVar[bytes] = GOOD
    headers_sent: ClassVar[tuple[tuple[str, str], ...]] = ()
    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        self.send_response(self.status)
        for name, value in self.headers_sent:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Silence."""


@contextlib.contextmanager
def answering(
    body: bytes = GOOD, status: int = 200, *headers: tuple[str, str]
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """The address of a server that always answers so, and the paths and tokens that it saw."""
    seen: list[tuple[str, str | None]] = []
    kind = type(
        "Handler", (_Handler,), {"status": status, "body": body, "headers_sent": headers, "seen": seen}
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def ask(url: str, token_file: Path | None = None) -> PrometheusAnswer:
    (answer,) = Prometheus(read_access(url, token_file)).over("up", DOCUMENTED, "up")
    return answer


def test_the_documented_answer() -> None:
    with answering() as (url, seen):
        answer = ask(url + "/prefix/")
    (series,) = answer.series
    assert series.labels == {"job": "prometheus", "instance": "localhost:9090"}
    assert list(zip(series.times_s, series.values, strict=True)) == [(1435781431, 1.0), (1435781446, 0.5)]
    assert answer.warnings == ("a store is down",)
    assert seen == [("/prefix/api/v1/query_range?query=up&start=1435781400&end=1435781460&step=60", None)]


def test_who_watches_hears_of_each_part() -> None:
    # 4,001 points are three parts of at most 2,000.
    heard: list[tuple[str, int, int]] = []
    with answering(NOTHING) as (url, seen):
        client = Prometheus(read_access(url), lambda *told: heard.append(told))
        assert len(list(client.over("up", Window(0, 4000, 1), "series"))) == 3
    assert heard == [("series", 1, 3), ("series", 2, 3), ("series", 3, 3)]
    assert [path.partition("&")[2] for path, _ in seen] == [
        "start=0&end=1999&step=1",
        "start=2000&end=3999&step=1",
        "start=4000&end=4000&step=1",
    ]


def test_a_packed_answer() -> None:
    with answering(gzip.compress(GOOD), 200, ("Content-Encoding", "gzip")) as (url, _):
        assert len(ask(url).series) == 1


def test_the_token_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with answering() as (url, seen):
        ask(url, tmp_path / "token")
    assert seen[0][1] == "Bearer secret"


def test_the_token_follows_no_redirect(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with (
        answering() as (other, seen),
        answering(b"", 302, ("Location", f"{other}/login?next=x")) as (url, _),
        pytest.raises(WorldError, match=r"answers 302 and points to 'http://127.*/login'; name that server"),
    ):
        ask(url, tmp_path / "token")
    assert seen == []


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "n\u00f6"])
def test_a_file_without_a_token(content: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="token: holds no bearer token; expected one line"):
        ask("http://127.0.0.1:1", tmp_path / "token")


@pytest.mark.parametrize(
    ("status", "body", "headers", "said"),
    [
        (401, b"", (), "access denied; name a file with a token"),
        (403, b"no", (), "access denied"),
        (302, b"", (("Location", "http://[x"),), "answers 302 and points to no address; name that server"),
        (302, b"", (), "answers 302 and points to no address"),
        (404, b"404 page not found", (), "no Prometheus there; check the address, and whether it has"),
        (500, b"<html>", (), "answers 500: '<html>'; the query was up"),
        (
            422,
            b'{"status":"error","errorType":"execution","error":"it would load too many samples"}',
            (),
            "load too many samples.*take a longer --step or a shorter --window",
        ),
        (200, b"<!doctype html><title>Sign in", (), "does not answer as Prometheus does.*asks for a login"),
        (200, b"", (), "does not answer as Prometheus does"),
        (200, GOOD[:-20], (), "does not answer as Prometheus does"),
        (200, b'{"status":"success"}', (), "answers without data"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[]}}', (), "'vector' instead of"),
        (200, gzip.compress(GOOD)[:-9], (("Content-Encoding", "gzip"),), "breaks off or is damaged"),
        (200, GOOD, (("Content-Encoding", "gzip"),), "breaks off or is damaged"),
    ],
)
def test_every_failure_names_the_address(
    status: int, body: bytes, headers: tuple[tuple[str, str], ...], said: str
) -> None:
    with answering(body, status, *headers) as (url, _), pytest.raises(WorldError, match=said) as raised:
        ask(url)
    assert url in str(raised.value)


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["advise", "sharing", "--prometheus", url]) == 3
    said = capsys.readouterr().err
    assert f"no answer from Prometheus at {url}" in said
    assert "port-forward" in said


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9090",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x?y=1",
        "http://u:p@x",
        "http://[",
        "http://a b",
    ],
)
def test_what_is_no_address(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "sharing", "--prometheus", url]) == 2
    said = capsys.readouterr().err
    assert "--prometheus" in said
    assert "u:p" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "either a table of use or --prometheus"),
        ([__file__, "--prometheus", "http://x"], "either a table of use or --prometheus"),
        (["--prometheus", "http://x", "--window", "x"], "not a length of time"),
        (["--prometheus", "http://x", "--step", "0.5s"], "not a length of time"),
        (["--prometheus", "http://x", "--step", "0"], "at least one"),
        (["--prometheus", "http://x", "--window", "30s"], "--window: shorter than a step"),
        (["--prometheus", "http://x", "--window", "9d", "--step", "2d"], "--step: not a step"),
        (["--prometheus", "http://x", "--window", "36500d"], "begins before 1970|too many points"),
        (["--prometheus", "http://x", "--until", "yesterday"], "--until: not a time"),
        (["--prometheus", "http://x", "--prometheus-ca-file", __file__], "plain http has no certificate"),
        (["--prometheus", "https://x", "--prometheus-ca-file", __file__], "holds no certificate"),
    ],
)
def test_options_that_make_no_sense(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", "sharing", *arguments]) == 2
    found = capsys.readouterr().err
    assert any(each in found for each in said.split("|"))


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "sharing", "--prometheus", "http://x", "--prometheus-token-file", "none"]) == 2
    assert "--prometheus-token-file: is not there, found 'none'" in capsys.readouterr().err
