"""Writes an engine's log to a file, gzip-compressed if the name says so, complete or not at all."""

import gzip
import secrets
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from gpufleet.replay.errors import FileWriteError


class LogFile:
    """A log on its way to its file; it takes its place when the block ends well."""

    def __init__(self, path: str) -> None:
        self._target = Path(path)
        self._beside = self._target.with_name(f".{self._target.name[:100]}.{secrets.token_hex(8)}.part")
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            if self._target.suffix == ".gz":
                # no time of writing inside: equal runs give equal files
                self._file = cast("BinaryIO", gzip.GzipFile(self._beside, "wb", compresslevel=3, mtime=0))
            else:
                self._file = self._beside.open("wb")
        except OSError as error:
            raise FileWriteError(
                f"{self._target}: the log could not be created ({error.strerror}); write elsewhere"
            ) from error
        return self

    def write(self, line: bytes, /) -> object:
        """Append one line."""
        if self._file is None:
            raise FileWriteError(f"{self._target}: the log is not open")
        return self._file.write(line)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        if kind is None:
            self._beside.replace(self._target)
        else:
            self._beside.unlink(missing_ok=True)
