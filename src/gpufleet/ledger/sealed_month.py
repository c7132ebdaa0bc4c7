"""A month of observations that changes no more: Parquet, and a file with its checksum beside it.

Equal observations make equal bytes, so a seal that was broken off is made again. The Parquet has the line
of each observation as ``log_file`` writes it, and beside it the columns that people select by. The checksum
is in the form of ``sha256sum``, which can check it.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gpufleet.files.atomic_write import write_whole
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import heading_line, read_log, written
from gpufleet.model.model_errors import InputError

ENDING = ".parquet"
"""How the name of a sealed month ends."""

CHECKSUM_ENDING = ".parquet.sha256"
"""How the name of its checksum ends."""

MAGIC = b"PAR1"
"""How a file in Parquet begins."""

LIMIT_BYTES = 4096 * MEBIBYTE
"""A month of the largest fleets has some hundred MiB."""

CLUSTER = b"gpufleet.io/cluster"
"""Names the cluster in the metadata of the Parquet."""

ROWS_PER_GROUP = 65_536
"""Readers skip groups by their statistics; fixed, so that equal rows are equal bytes."""

EXPECTED = "a month that `gpufleet ledger` sealed"
"""What is expected of a file in Parquet."""

SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("uid", pa.string()),
        ("number", pa.int64()),
        ("at_us", pa.int64()),
        ("line", pa.string()),
    ]
)
"""A line, and what it is about; null where an observation has no such thing."""


class _Columns(msgspec.Struct, frozen=True):
    type: str = ""
    uid: str | None = None
    number: int | None = None
    at_us: int | None = None


_COLUMNS = msgspec.json.Decoder(_Columns)


def sealed(log: IntervalLog, cluster: str) -> bytes:
    """The Parquet of all that a log has seen."""
    # The first line is the heading, which stands in the metadata.
    lines = [line.rstrip(b"\n") for line in written(log, cluster)][1:]
    rows = [_COLUMNS.decode(line) for line in lines]
    columns: list[list[object]] = [
        [row.type for row in rows],
        [row.uid for row in rows],
        [row.number for row in rows],
        [row.at_us for row in rows],
        [line.decode() for line in lines],
    ]
    schema = SCHEMA.with_metadata({CLUSTER: cluster.encode()})
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(arrays, schema=schema)
    pq.write_table(table, sink, compression="zstd", row_group_size=ROWS_PER_GROUP)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def write_sealed(path: Path, log: IntervalLog, cluster: str) -> str:
    """Write the month and its checksum, each whole or not at all; the checksum."""
    content = sealed(log, cluster)
    checksum = hashlib.sha256(content).hexdigest()
    write_whole(path, content)
    write_whole(checksum_path(path), f"{checksum}  {path.name}\n".encode())
    return checksum


def checksum_path(path: Path) -> Path:
    """Where the checksum of a sealed month is."""
    return path.with_name(path.name.removesuffix(ENDING) + CHECKSUM_ENDING)


def sealed_lines(path: Path) -> Iterator[bytes]:
    """The lines of a sealed month, heading first. Raises InputError for one that was changed."""
    content = read_regular(path, LIMIT_BYTES, field="LOG")
    _check(path, content)
    try:
        table = pq.read_table(pa.BufferReader(content))
        cluster = (table.schema.metadata or {})[CLUSTER].decode()
        lines = table.column("line").to_pylist()
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise InputError("not a sealed month that can be read", where=str(path), expected=EXPECTED) from error
    yield heading_line(cluster)
    for line in lines:
        yield f"{line}\n".encode()


def _check(path: Path, content: bytes) -> None:
    beside = checksum_path(path)
    if not beside.exists():
        raise InputError("has no checksum beside it", where=str(path), expected=f"the file {beside.name}")
    told = beside.read_text(encoding="utf-8").partition(" ")[0]
    found = hashlib.sha256(content).hexdigest()
    if told != found:
        raise InputError(
            "was changed after it was sealed",
            where=str(path),
            value=found,
            expected=f"the checksum {told} of {beside.name}",
        )


def read_sealed(path: Path) -> tuple[IntervalLog, str]:
    """What a sealed month has seen, and of which cluster."""
    log = IntervalLog()
    origin = read_log(sealed_lines(path), str(path), log)
    return log, origin.cluster
