"""Answers cut at any byte are read the same, and what is doubtful is refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.http_parser import MalformedAnswerError, ResponseParser

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A:  b \r\n\r\n"
    b"4\r\nWiki\r\n7;name=value\r\npedia i\r\nB\r\nn \r\nchunks.\r\n0\r\nTrailer: x\r\n\r\n"
)
WITH_LENGTH = (
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 404 \r\nContent-Length: 5\r\nA: 1\r\na: 2\r\n\r\nhello"
)


def parsed(*pieces: bytes, method: str = "GET") -> ResponseParser:
    parser = ResponseParser()
    parser.begin(method)
    for piece in pieces:
        parser.feed(piece)
    return parser


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def test_every_single_cut_reads_the_same() -> None:
    for at in range(len(CHUNKED) + 1):
        parser = parsed(CHUNKED[:at], CHUNKED[at:])
        assert (parser.status, parser.take_body(), parser.complete) == (
            200,
            b"Wikipedia in \r\nchunks.",
            True,
        )
        assert parser.headers["x-a"] == "b"
    for at in range(len(WITH_LENGTH) + 1):
        parser = parsed(WITH_LENGTH[:at], WITH_LENGTH[at:])
        assert (parser.status, parser.take_body(), parser.complete) == (404, b"hello", True)
        assert parser.headers["a"] == "1, 2"


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=20))
def test_many_cuts_read_the_same(places: list[int]) -> None:
    parser = parsed(*cut(CHUNKED, places))
    assert parser.take_body() == b"Wikipedia in \r\nchunks."
    assert parser.complete
    assert parser.keep_alive


def test_truncated_answer_is_never_whole() -> None:
    for at in range(len(CHUNKED)):
        parser = parsed(CHUNKED[:at])
        assert not parser.complete
        with pytest.raises(MalformedAnswerError):
            parser.end()


def test_answer_without_length_ends_with_the_connection() -> None:
    parser = parsed(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it")
    parser.end()
    assert parser.complete
    assert parser.take_body() == b"all of it"
    assert not parser.keep_alive


def test_answers_without_body() -> None:
    assert parsed(b"HTTP/1.1 204 No Content\r\n\r\n").complete
    assert parsed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").complete
    assert parsed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", method="HEAD").complete


def test_who_keeps_the_connection_open() -> None:
    end = b"Content-Length: 0\r\n\r\n"
    assert parsed(b"HTTP/1.1 200 OK\r\n" + end).keep_alive
    assert not parsed(b"HTTP/1.1 200 OK\r\nConnection: Close\r\n" + end).keep_alive
    assert not parsed(b"HTTP/1.0 200 OK\r\n" + end).keep_alive
    assert parsed(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + end).keep_alive


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x15\x03\x01\x00\x02",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5_000,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000,
    ],
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        parsed(garbage)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_an_answer_or_refused(data: bytes, at: int) -> None:
    for head in (b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            parser = parsed(head, data[:at], data[at:])
        except MalformedAnswerError:
            continue
        assert parser.held_bytes <= len(data)
