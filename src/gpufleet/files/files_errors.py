"""What can go wrong with files that are written, and how a path is shown.

WorldError
  FileWriteError      a file could not be written
"""

import os
from pathlib import Path

from gpufleet.model.model_errors import WorldError


class FileWriteError(WorldError):
    """A file could not be written; the file that was there before is untouched."""


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path as it may stand in a message: one line, escaped if it would forge another."""
    text = str(Path(path))
    return text if text.isprintable() else ascii(text)
