"""From the chunks of a watch to its events.

A chunk may be cut anywhere, so only whole lines are events; what is left of a line when the
connection breaks is dropped, and the watch resumes after the last whole one. ``mirror`` gives the
events their meaning.
"""

import msgspec

from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.transport import ResponseStream

LONGEST_LINE_BYTES = 64 * 1024 * 1024
"""One object with its frame: an API server stores far smaller ones."""

# The types of a watch's events.
ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


class WatchBroken(KubeError):
    """The server sent something that is no stream of watch events."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch. The object stays bytes until its kind's decoder reads it."""

    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(WatchEvent)


class LineSplitter:
    """Puts lines together from chunks that are cut anywhere."""

    def __init__(self, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._parts: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends. Empty lines are left out.

        Raises WatchBroken for a line longer than the bound: an endless one must not fill the memory.
        """
        # What follows the last line end is the beginning of a line that later chunks complete.
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts = []
            self._held_bytes = 0
        if rest:
            # Parts are joined once their line is whole: to add up bytes chunk by chunk costs the square of
            # its length.
            self._parts.append(rest)
            self._held_bytes += len(rest)
            if self._held_bytes > self._longest_bytes:
                raise WatchBroken(f"a line of a watch is longer than {self._longest_bytes} bytes")
        return [line for line in lines if line and line != b"\r"]


def decode_event(line: bytes) -> WatchEvent:
    """The event in a line. Raises WatchBroken."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WatchBroken(f"a line of a watch is no event: {error}") from error


class Watch:
    """An open watch: an asynchronous iterator over the events that arrived together, in order.

    An empty list is a sign of life without an event. Raises TransportError when the connection
    breaks and WatchBroken for garbage; ends when the server ends it.
    """

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._chunks = stream.chunks()
        self._splitter = LineSplitter()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> list[WatchEvent]:
        chunk = await anext(self._chunks)
        return [decode_event(line) for line in self._splitter.feed(chunk)]

    async def close(self) -> None:
        """Stop listening; more than once does no harm."""
        await self._stream.close()
