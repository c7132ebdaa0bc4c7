"""Reads HTTP/1.1 answers from bytes that are cut anywhere (RFC 9112).

Strict: what a proxy and we could understand differently is refused, because a connection that is
used again must not take the rest of one answer for the next. ``http_connection`` feeds it.
"""

import re
from enum import IntEnum

from gpufleet.kube.transport import LARGEST_BODY_BYTES

# Far more than an API server sends; a server that sends more would fill our memory.
LONGEST_HEAD_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 4 * 1024
MOST_HEADERS = 256
"""API servers send some twenty."""

MOST_INTERIM_ANSWERS = 8
"""Answers of 1xx before the real one."""


_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n\0]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class MalformedAnswerError(Exception):
    """The bytes are no HTTP/1.1 answer, or one that we refuse to guess about."""


class _Part(IntEnum):
    HEAD = 0
    LENGTH = 1
    CHUNK_SIZE = 2
    CHUNK_DATA = 3
    CHUNK_END = 4
    TRAILER = 5
    UNTIL_CLOSE = 6
    COMPLETE = 7


class ResponseParser:
    """One answer after another from one connection.

    After ``begin``, ``feed`` fills ``status`` (0 before the head is whole), ``headers`` (names in
    lower case) and ``pieces`` of the body, which a reader may take away while more is coming.
    """

    def __init__(self) -> None:
        self.begin("GET")

    def begin(self, method: str, most_bytes: int = LARGEST_BODY_BYTES) -> None:
        """A request of this method was sent: expect its answer."""
        self.status = 0
        self.most_bytes = most_bytes
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.keep_alive = True
        self._without_body = method == "HEAD"
        self._part = _Part.HEAD
        self._left = 0
        self._buffer = b""
        self._interim = 0
        self._trailer_bytes = 0
        self.held_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether any byte of the answer has come."""
        return self.status != 0 or bool(self._buffer)

    @property
    def complete(self) -> bool:
        """Whether the whole answer is there."""
        return self._part is _Part.COMPLETE

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises MalformedAnswerError."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        if self._part is _Part.HEAD:
            data = self._feed_head(data)
        if self._part is _Part.LENGTH:
            self._feed_length(data)
        elif self._part is _Part.UNTIL_CLOSE:
            self._take(data)
        elif self._part is _Part.COMPLETE:
            if data:
                raise MalformedAnswerError("bytes after the end of an answer")
        elif self._part is not _Part.HEAD:
            self._feed_chunked(data)

    def end(self) -> None:
        """The server closed the connection. Raises MalformedAnswerError if the answer was not whole."""
        if self._part is _Part.UNTIL_CLOSE:
            self._part = _Part.COMPLETE
        elif self._part is not _Part.COMPLETE:
            raise MalformedAnswerError("the connection was closed in the middle of an answer")

    def take_body(self) -> bytes:
        """What has come of the body and was not taken yet."""
        pieces = self.pieces
        if not pieces:
            return b""
        self.pieces = []
        self.held_bytes = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take(self, data: bytes) -> None:
        if data:
            self.held_bytes += len(data)
            self.pieces.append(data)

    def _feed_head(self, data: bytes) -> bytes:
        while True:
            end = data.find(b"\r\n\r\n")
            if end > LONGEST_HEAD_BYTES or (end < 0 and len(data) > LONGEST_HEAD_BYTES):
                raise MalformedAnswerError(f"the head of an answer is longer than {LONGEST_HEAD_BYTES} bytes")
            if end < 0:
                # Compared as far as it goes: another protocol is refused before a whole head came.
                if data[:7] != b"HTTP/1."[: len(data)]:
                    raise MalformedAnswerError("the answer does not begin as HTTP/1.1")
                self._buffer = data
                return b""
            lines = data[:end].decode("latin-1").split("\r\n")
            data = data[end + 4 :]
            found = _STATUS_LINE.fullmatch(lines[0])
            if found is None:
                raise MalformedAnswerError("the answer does not begin as HTTP/1.1")
            status = int(found[2])
            if status == 101:
                raise MalformedAnswerError("the server wants to speak another protocol")
            if status >= 200:
                self.headers = _headers(lines)
                self._choose_body(status, is_1_0=found[1] == "0")
                return data
            # 1xx says that the real answer is still to come.
            self._interim += 1
            if self._interim > MOST_INTERIM_ANSWERS:
                raise MalformedAnswerError("the answer never comes: the server says 1xx again and again")

    def _choose_body(self, status: int, *, is_1_0: bool) -> None:
        headers = self.headers
        connection = headers.get("connection", "").lower()
        self.keep_alive = "keep-alive" in connection if is_1_0 else "close" not in connection
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if headers.get("content-encoding", "identity") != "identity":
            raise MalformedAnswerError("the answer is compressed, which was not asked for")
        self.status = status
        # These have no body, whatever their fields say (RFC 9112, section 6.3).
        if self._without_body or status in {204, 304}:
            self._part = _Part.COMPLETE
        elif coding is not None:
            # Two lengths are how requests are smuggled past a proxy (RFC 9112, section 6.3).
            if coding.lower() != "chunked" or length is not None or is_1_0:
                raise MalformedAnswerError("the answer's length is given in more than one way")
            self._part = _Part.CHUNK_SIZE
        elif length is not None:
            # Fifteen digits are a petabyte; longer numbers only cost time.
            if not (length.isascii() and length.isdigit()) or len(length) > 15:
                raise MalformedAnswerError("the answer's Content-Length is no number")
            self._left = int(length)
            if self._left > self.most_bytes:
                raise MalformedAnswerError(f"the answer is larger than {self.most_bytes} bytes")
            self._part = _Part.LENGTH if self._left else _Part.COMPLETE
        else:
            # Without a length the answer ends with its connection (RFC 9112, section 6.3).
            self.keep_alive = False
            self._part = _Part.UNTIL_CLOSE

    def _feed_length(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise MalformedAnswerError("bytes after the end of an answer")
        self._take(data)
        if not self._left:
            self._part = _Part.COMPLETE

    def _feed_chunked(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._part is _Part.CHUNK_DATA:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                self._take(piece)
                if not self._left:
                    self._part = _Part.CHUNK_END
                continue
            if self._part is _Part.COMPLETE:
                raise MalformedAnswerError("bytes after the end of an answer")
            end = data.find(b"\r\n", at)
            if end < 0:
                if size - at > LONGEST_LINE_BYTES:
                    raise MalformedAnswerError(
                        f"a line between chunks is longer than {LONGEST_LINE_BYTES} bytes"
                    )
                self._buffer = data[at:]
                return
            self._chunk_line(data[at:end])
            at = end + 2

    def _chunk_line(self, line: bytes) -> None:
        if self._part is _Part.CHUNK_END:
            if line:
                raise MalformedAnswerError("a chunk is longer than it said")
            self._part = _Part.CHUNK_SIZE
        elif self._part is _Part.CHUNK_SIZE:
            found = _CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise MalformedAnswerError("the size of a chunk is no number")
            self._left = int(found[1], 16)
            self._part = _Part.CHUNK_DATA if self._left else _Part.TRAILER
        elif not line:
            self._part = _Part.COMPLETE
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > LONGEST_HEAD_BYTES:
                raise MalformedAnswerError(
                    f"the trailer of an answer is longer than {LONGEST_HEAD_BYTES} bytes"
                )


def _headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS + 1:
        raise MalformedAnswerError(f"the answer has more than {MOST_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or _NAME.fullmatch(name) is None:
            raise MalformedAnswerError("a header of the answer is malformed")
        value = value.strip(" \t")
        # Equal headers are one list (RFC 9110, section 5.2); two lengths have to be equal.
        if name in headers:
            if name == "content-length" and value != headers[name]:
                raise MalformedAnswerError("the answer's length is given in more than one way")
            value = value if name == "content-length" else f"{headers[name]}, {value}"
        headers[name] = value
    return headers
