"""The patches of a Kustomization: files that look like objects and are only parts of some.

A patch that sets a limit of GPUs has no image and no volumes, so rules would judge what is not there.
``inputs`` leaves patches out and says which command shows lint the whole.
"""

from collections.abc import Iterator
from pathlib import Path

from gpufleet.files.regular import UnfitFileError, read_regular
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.parse import parse
from gpufleet.lint.source.text import SourceText

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
SIZE_MAX_BYTES = 2**20
"""A Kustomization lists files; the largest public ones have some hundred lines."""


def patches_of(folder: Path) -> frozenset[Path]:
    """The files that the Kustomization of a folder applies as patches; none where there is no Kustomization.

    A Kustomization that cannot be read has none: what is wrong is told where it is read as a manifest. Raises
    OSError.
    """
    for name in NAMES:
        path = folder / name
        if path.is_file():
            try:
                text = read_regular(path, SIZE_MAX_BYTES).decode("utf-8")
            except (UnfitFileError, UnicodeDecodeError):
                return frozenset()
            documents = parse(SourceText(str(path), text)).documents
            named = [one for node in documents for one in _patches(Field(node))]
            # Patches may also stand in the Kustomization itself, in several lines.
            return frozenset((folder / one).resolve() for one in named if "\n" not in one)
    return frozenset()


def _patches(root: Field) -> Iterator[str]:
    for name in ("patches", "patchesJson6902"):
        yield from (text for one in root.at(name).items() if (text := one.at("path").text))
    yield from (text for one in root.at("patchesStrategicMerge").items() if (text := one.text))
