"""A model that was cut into several files: all of them count, and a missing one is said.

Publishers name them alike: NAME-00001-of-00003.gguf, model-00001-of-00003.safetensors.
"""

import re
from pathlib import Path

from gpufleet.model.model_errors import InputError, printable

_PART = re.compile(r"(.*-)([0-9]{5})-of-([0-9]{5})(\.[a-z]+)")


def all_parts(path: Path) -> list[Path]:
    """The files that belong together, the first one first; raises InputError if one is missing."""
    found = _PART.fullmatch(path.name)
    if found is None:
        return [path]
    begins, _, count, ending = found.groups()
    # Named by counting and not by listing: only so a missing one shows.
    parts = [path.with_name(f"{begins}{number:05}-of-{count}{ending}") for number in range(1, int(count) + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing or not parts:
        raise InputError(
            "a part of the model is missing, and without it the count would be too small",
            where=printable(str(path)),
            value=[printable(name) for name in missing[:3]],
            expected=f"all {int(count)} parts in one folder",
        )
    return parts
