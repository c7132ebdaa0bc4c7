"""A model from files on this machine: its config.json, the index of its safetensors, or a GGUF file.

A folder as publishers upload it has the first two: the configuration gives the shapes, the index the exact
size. Files are read no further than their heads, and nothing is taken from them but numbers and names.
"""

from pathlib import Path

import msgspec

from gpufleet.advise.fit.gguf import read_gguf
from gpufleet.advise.fit.parts import all_parts
from gpufleet.advise.fit.safetensors import header_bytes
from gpufleet.files.given import check_readable
from gpufleet.files.regular import read_regular
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.facts import Origin
from gpufleet.fit.question import Model
from gpufleet.fit.spellings import read_config
from gpufleet.model.model_errors import InputError, printable

CONFIG = "config.json"
PATH_CHARACTERS_MAX = 4095
"""The longest path that Linux takes."""

INDEX = "model.safetensors.index.json"
CONFIG_BYTES_MAX = 16 << 20
"""Larger files are no configurations; the indexes of the largest models have about 10 MB."""


class IndexHead(msgspec.Struct, frozen=True):
    """What an index says of all files together."""

    total_size: int | float | None = None


class Index(msgspec.Struct, frozen=True):
    """The index of a model's safetensors, without the place of each tensor."""

    metadata: IndexHead = IndexHead()


def is_local_path(text: str) -> bool:
    """Whether a text means a file: by its ending, or because the file is there and the text looks like a
    path.
    """
    if len(text) > PATH_CHARACTERS_MAX:
        return False
    path = Path(text)
    return path.suffix in {".json", ".gguf", ".safetensors"} or (
        (text.startswith((".", "/", "~")) or "/" not in text) and path.expanduser().is_dir()
    )


def model_of_path(text: str) -> Model:
    """The model of that file or folder; raises InputError in its terms."""
    path = Path(text).expanduser()
    if path.is_dir():
        path = _in_folder(path)
    check_readable(
        path, field="MODEL", expected="a config.json or its folder, a safetensors index, or a GGUF file"
    )
    if path.suffix == ".gguf":
        return read_gguf(path)
    if path.name.endswith(".index.json") or path.suffix == ".safetensors":
        return _with_sizes(path.parent / CONFIG, path)
    index = path.parent / INDEX
    return _with_sizes(path, index if index.is_file() else None)


def _in_folder(folder: Path) -> Path:
    if (folder / CONFIG).is_file():
        return folder / CONFIG
    found = sorted(folder.glob("*.gguf"))
    if found and {*all_parts(found[0])} == {*found}:
        return found[0]
    raise InputError(
        "the folder holds no model",
        where=printable(str(folder)),
        expected=f"a {CONFIG}, or one GGUF file",
    )


def _with_sizes(config: Path, sizes: Path | None) -> Model:
    if not config.is_file():
        raise InputError(
            "sizes alone do not say how a model keeps its tokens",
            where=printable(str(config)),
            expected=f"{CONFIG} beside it",
        )
    name = config.resolve().parent.name
    facts = facts_of(name, read_config(_bytes(config), printable(str(config))))
    if sizes is None:
        return Model(facts, Origin.CONFIG, str(config))
    if sizes.suffix == ".safetensors":
        total = sum(header_bytes(part) for part in all_parts(sizes))
        return Model(facts, Origin.SAFETENSORS, str(sizes), weights_bytes=total)
    said = read_index(_bytes(sizes), printable(str(sizes))).metadata.total_size
    weights = int(said) if said is not None and said > 0 else None
    return Model(facts, Origin.SAFETENSORS, str(sizes), weights_bytes=weights)


def _bytes(path: Path) -> bytes:
    return read_regular(path, CONFIG_BYTES_MAX)


def read_index(data: bytes, where: str) -> Index:
    """The index of a model's safetensors; raises InputError for what is none."""
    try:
        return msgspec.json.decode(data, type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(error), where=where) from error
