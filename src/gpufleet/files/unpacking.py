"""Unfolds a gzip within limits: a few kilobytes of it can stand for terabytes.

The stream stops as soon as more came out than the limits allow, by the total and by the bytes that came of
each packed byte. It can be sought in, which begins anew for a place that has gone by.
"""

import io
import os
import zlib
from typing import TYPE_CHECKING

import msgspec

from gpufleet.files.regular import MEBIBYTE, UnfitFileError, size_words
from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAGIC = b"\x1f\x8b"
"""The first bytes of every gzip (RFC 1952)."""

_GZIP_BITS = 16 + zlib.MAX_WBITS
"""How zlib is told to expect a gzip's head, with the largest window."""

# So much is unpacked before the limit is looked at again.
_PACKED_BYTES = 64 * 1024
_DISCARD_BYTES = MEBIBYTE
"""Seeking forward unpacks and drops pieces of this size."""

_EMPTY_MEMBERS_MAX = 1000
"""Empty members in a row. One at the end of a file is usual; each costs time and gives nothing."""


class UnpackingLimits(msgspec.Struct, frozen=True):
    """How far a gzip may unfold."""

    total_bytes: int
    inflation: int = 500
    """Unpacked bytes per packed byte. Lists of equal objects with names of their own stay below 250, and
    deflate cannot say more than 1032."""

    grace_bytes: int = 16 * MEBIBYTE
    """So many bytes may come of any file: a small one may be as regular as it likes."""


class GzipError(InputError):
    """The gzip is damaged or cut off."""


class UnpackingStream(io.RawIOBase):
    """The unpacked bytes of a gzip, of one member or several. ``name`` is for messages.

    Reading raises UnfitFileError where it unfolds too far, and GzipError where it is damaged.
    """

    def __init__(self, packed: io.RawIOBase | io.BytesIO, name: str, limits: UnpackingLimits) -> None:
        self._packed = packed
        self._name = name
        self._limits = limits
        self._restart()

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always, at the price of unpacking anew."""
        return True

    def tell(self) -> int:
        """Unpacked bytes that have been passed."""
        return self._out

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill a part of the buffer; 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place from the beginning or from here."""
        if whence == os.SEEK_CUR:
            offset += self._out
        elif whence != os.SEEK_SET:
            raise io.UnsupportedOperation("the end of a gzip is not known")
        if offset < self._out:
            self._packed.seek(0)
            self._restart()
        while self._out < offset and self._next(min(_DISCARD_BYTES, offset - self._out)):
            pass
        return self._out

    def close(self) -> None:
        """Let go of the packed file too."""
        if not self.closed:
            self._packed.close()
        super().close()

    def _restart(self) -> None:
        self._decoder = zlib.decompressobj(_GZIP_BITS)
        self._waiting = b""
        self._in = 0
        self._out = 0
        self._begun = False
        self._empty_members = 0
        self._member_from = 0

    def _next(self, most: int) -> bytes:
        """The next bytes, some of those that were asked for; none at the end."""
        while most:
            if self._decoder.eof:
                self._empty_members = 0 if self._out > self._member_from else self._empty_members + 1
                if self._empty_members > _EMPTY_MEMBERS_MAX:
                    raise GzipError("the gzip has thousands of empty parts", where=self._name)
                self._member_from = self._out
                self._waiting = self._decoder.unused_data.lstrip(b"\0")
                self._decoder = zlib.decompressobj(_GZIP_BITS)
                self._begun = False
            if not self._waiting:
                piece = self._packed.read(_PACKED_BYTES) or b""
                self._in += len(piece)
                # Zeros behind the last member are padding.
                self._waiting = piece if self._begun or not self._out else piece.lstrip(b"\0")
                if not piece:
                    if self._begun:
                        raise GzipError("the gzip ends too early", where=self._name, expected="all of it")
                    return b""
            try:
                data = self._decoder.decompress(self._waiting, most)
            except zlib.error as error:
                raise GzipError(f"the gzip is damaged ({error})", where=self._name) from error
            self._begun = self._begun or bool(self._waiting)
            self._waiting = self._decoder.unconsumed_tail
            if data:
                self._out += len(data)
                self._check()
                return data
        return b""

    def _check(self) -> None:
        limits = self._limits
        if self._out > limits.total_bytes:
            raise UnfitFileError(
                f"unfolds to more than {size_words(limits.total_bytes)}",
                where=self._name,
                expected=f"at most {limits.total_bytes} bytes unpacked",
            )
        if self._out > limits.grace_bytes and self._out > limits.inflation * self._in:
            raise UnfitFileError(
                f"the gzip unfolds to more than {limits.inflation} times its size",
                where=self._name,
                expected="a gzip of what belongs there; if it is one, unpack it first",
            )


def unpacked(data: bytes, name: str, limits: UnpackingLimits) -> bytes:
    """The bytes, unpacked where they are a gzip. Raises UnfitFileError and GzipError."""
    if not data.startswith(MAGIC):
        return data
    with UnpackingStream(io.BytesIO(data), name, limits) as stream:
        return stream.readall()
