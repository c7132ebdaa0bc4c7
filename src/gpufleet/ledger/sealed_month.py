"""A month of observations that changes no more: Parquet, and a file with its checksum beside it.

Equal observations make equal bytes, so a seal that was broken off is made again. The Parquet has the line
of each observation as ``log_file`` writes it, and beside it the columns that people select by. The checksum
is in the form of ``sha256sum``, which can check it.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import numpy as np

from gpufleet.files.atomic_write import write_whole
from gpufleet.files.files_errors import FileWriteError
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.ledger.checksums import check, write_checksum
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import heading_line, read_log, written
from gpufleet.model.model_errors import InputError

ENDING = ".parquet"
"""How the name of a sealed month ends."""

UNFINISHED_ENDING = ".part"
"""How the name of a month that is being made ends."""

LIMIT_BYTES = 4096 * MEBIBYTE
"""A month of the largest fleets has some hundred MiB."""

CLUSTER = "gpufleet.io/cluster"
"""Names the cluster in the metadata of the Parquet."""

ROWS_PER_GROUP = 65_536
"""Readers skip groups by their statistics; fixed, so that equal rows are equal bytes."""

EXPECTED = "a month that `gpufleet ledger` sealed"
"""What is expected of a file in Parquet."""

TABLE = "CREATE TABLE months (type VARCHAR, uid VARCHAR, number BIGINT, at_us BIGINT, line VARCHAR)"
"""A line, and what it is about; null where an observation has no such thing."""

THREADS = 1
"""Several would share the rows out among them, and not always alike."""


class LineColumns(msgspec.Struct, frozen=True):
    """What the line of an observation is about; None where it has no such thing."""

    type: str = ""
    uid: str | None = None
    number: int | None = None
    at_us: int | None = None


_COLUMNS = msgspec.json.Decoder(LineColumns)


def columns_of(line: bytes) -> LineColumns:
    """What a line is about."""
    return _COLUMNS.decode(line)


def write_sealed(path: Path, log: IntervalLog, cluster: str) -> str:
    """Write the month and its checksum, each whole or not at all; the checksum."""
    content = parquet_of(path.with_name(f".{path.name}{UNFINISHED_ENDING}"), log, cluster)
    write_whole(path, content)
    return write_checksum(path, content)


def parquet_of(place: Path, log: IntervalLog, cluster: str) -> bytes:
    """The Parquet of all that a log has seen, which is made at a place that is free again afterwards."""
    # The first line is the heading, which stands in the metadata.
    lines = [line.rstrip(b"\n") for line in written(log, cluster)][1:]
    rows = [columns_of(line) for line in lines]
    columns = {
        "type": [row.type for row in rows],
        "uid": [row.uid for row in rows],
        "number": [row.number for row in rows],
        "at_us": [row.at_us for row in rows],
        "line": [line.decode() for line in lines],
    }
    try:
        with duckdb.connect(":memory:", config={"threads": THREADS}) as database:
            database.execute(TABLE)
            if rows:
                arrays = {name: np.array(column, dtype=object) for name, column in columns.items()}
                database.register("lines", arrays)
                database.execute("INSERT INTO months SELECT * FROM lines")
            named = f"KV_METADATA {{'{CLUSTER}': {_quoted(cluster)}}}"
            options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS_PER_GROUP}, {named}"
            database.execute(f"COPY months TO {_quoted(str(place))} ({options})")
        return read_regular(place, LIMIT_BYTES, field="LOG")
    except duckdb.IOException as error:
        raise FileWriteError(f"{place} cannot be written: {error}") from error
    finally:
        place.unlink(missing_ok=True)


def _quoted(text: str) -> str:
    """A text of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def sealed_lines(path: Path) -> Iterator[bytes]:
    """The lines of a sealed month, heading first. Raises InputError for one that was changed."""
    content = read_regular(path, LIMIT_BYTES, field="LOG")
    # Before DuckDB reads it: a file that was changed may be anything.
    check(path, content)
    yield from parquet_lines(path)


def parquet_lines(path: Path) -> Iterator[bytes]:
    """The lines in the Parquet of a month, heading first. Raises InputError for anything else."""
    try:
        with duckdb.connect(":memory:") as database:
            named = database.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
            lines = database.execute("SELECT line FROM read_parquet(?)", [str(path)]).fetchall()
    except duckdb.Error as error:
        raise InputError("not a sealed month", where=str(path), expected=EXPECTED) from error
    metadata = {bytes(key).decode(): bytes(value).decode() for key, value in named}
    yield heading_line(metadata.get(CLUSTER, ""))
    for (line,) in lines:
        yield f"{line}\n".encode()


def read_sealed(path: Path) -> tuple[IntervalLog, str]:
    """What a sealed month has seen, and of which cluster."""
    log = IntervalLog()
    origin = read_log(sealed_lines(path), str(path), log)
    return log, origin.cluster
