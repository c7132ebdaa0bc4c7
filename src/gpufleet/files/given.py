"""A path as a user gave it, checked before any work begins: whether a file lies there and may be read.

A refusal names what is wrong and the nearest name that is there. ``regular`` opens the file later.
"""

import os
from pathlib import Path

from gpufleet.files.regular import UnfitFileError, open_regular
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError, printable

NAMES_MAX = 1000
"""Names of a folder in which a similar one is looked for: a folder may have millions."""


def check_readable(path: Path, *, field: str, expected: str, folder_too: bool = False) -> None:
    """Find out whether a file lies there that can be opened, or a folder where that will do too.

    Raises InputError.
    """
    if folder_too and path.is_dir():
        return check_folder(path, field=field, expected=expected)
    try:
        open_regular(path, field=field).close()
    except UnfitFileError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, field, expected) from error
    return None


def check_folder(path: Path, *, field: str, expected: str) -> None:
    """Find out whether a folder lies there that can be listed. Raises InputError."""
    try:
        with os.scandir(path):
            return
    except NotADirectoryError as error:
        if path.exists():
            raise _refusal(path, "is no folder", field, expected) from error
        raise _unreadable(path, error, field, expected) from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, field, expected) from error


def check_new_folder(path: Path, *, field: str, expected: str) -> None:
    """Find out whether the path is that of a folder, or one can be made there. Raises InputError."""
    above = path
    while not os.path.lexists(above) and above != above.parent:
        above = above.parent
    if not above.is_dir():
        words = (
            "is no folder"
            if above == path
            else f"cannot be made, because {printable(str(above))} is no folder"
        )
        raise _refusal(path, words, field, expected)


def _unreadable(path: Path, error: Exception, field: str, expected: str) -> InputError:
    if isinstance(error, PermissionError):
        return _refusal(path, "may not be read by this user", field, f"{expected} that this user may read")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _refusal(path, _what_lacks(path), field, f"{expected}{_similar(path)}")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return _refusal(path, f"cannot be read ({reason})", field, expected)


def _what_lacks(path: Path) -> str:
    """Which part of the path is not there."""
    if path.parent.is_dir():
        return "is not there"
    above = path.parent
    while not above.parent.is_dir() and above != above.parent:
        above = above.parent
    return f"is not there: {printable(str(above))} is no folder"


def _similar(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(NAMES_MAX), strict=False)]
    except OSError:
        return ""
    near = nearest(path.name, names) if path.name else None
    return f"; did you mean {printable(str(path.with_name(near)))[1:-1]}?" if near else ""


def _refusal(path: Path, problem: str, field: str, expected: str) -> InputError:
    return InputError(problem, field=field, value=str(path), expected=expected)
