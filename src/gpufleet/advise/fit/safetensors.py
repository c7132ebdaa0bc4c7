"""The head of a safetensors file: eight bytes of length, then JSON with the place of every tensor.

The format is at https://github.com/huggingface/safetensors (README, "Format"). Only the places are read.
"""

from pathlib import Path

import msgspec

from gpufleet.files.regular import open_regular, read_at_most
from gpufleet.model.model_errors import InputError, printable

HEADER_BYTES_MAX = 100_000_000
"""What the format itself allows."""


class _Tensor(msgspec.Struct, frozen=True):
    data_offsets: tuple[int, int] = (0, 0)


def header_bytes(path: Path) -> int:
    """Bytes of all tensors of one file; raises InputError if it is none."""
    with open_regular(path) as file:
        length = int.from_bytes(read_at_most(file, 8) or b"", "little")
        # A file of another format begins with any eight bytes: mostly a number far too large.
        if not 2 <= length <= HEADER_BYTES_MAX:
            raise InputError("this is no safetensors file", where=printable(str(path)))
        head = read_at_most(file, length) or b""
    try:
        tensors = msgspec.json.decode(head, type=dict[str, _Tensor])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"this is no safetensors file: {error}", where=printable(str(path))) from error
    # "__metadata__" is a table of words beside the tensors, and has no bytes of weights.
    sizes = [
        one.data_offsets[1] - one.data_offsets[0] for name, one in tensors.items() if name != "__metadata__"
    ]
    if any(size < 0 for size in sizes):
        raise InputError("a tensor ends before it begins", where=printable(str(path)))
    return sum(sizes)
