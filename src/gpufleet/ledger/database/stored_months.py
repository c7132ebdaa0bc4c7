"""What a database of months has, for those who only read it: they need the right to select and no other."""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from gpufleet.files.atomic_write import write_whole
from gpufleet.ledger.database.address import DatabaseAddress
from gpufleet.ledger.database.connecting import Cursor, DatabaseConnection
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import Origin, heading_line, read_log
from gpufleet.ledger.months import month_of
from gpufleet.ledger.sealed_month import parquet_lines
from gpufleet.model.model_errors import InputError

SCHEMA_VERSION = 1
"""A version that changes what readers must understand gets another number."""

LINES_PER_FETCH = 10_000
"""So many lines of an open month are in memory at once."""


NEWEST_MONTHS = 2
"""So many are read where no begin is asked for: the last day may lie in the month before."""


def read_months(
    address: DatabaseAddress,
    begin_us: int | None,
    until_us: int | None,
    log: IntervalLog,
    before: Origin | None,
) -> Origin:
    """Take the months of a time into a log, which has observations of one cluster: that of ``before``.

    Raises InputError and DatabaseError.
    """
    with closing(DatabaseConnection(address)) as connection, connection.transaction() as cursor:
        cluster = cluster_in(cursor)
        known = sorted({*months_in(cursor, sealed=True), *months_in(cursor, sealed=False)})
        origin = before or Origin(cluster, address.name)
        for month in months_of(known, begin_us, until_us):
            read_log(lines_of(cursor, month, cluster), f"{address.name}, month {month}", log, origin)
    return origin


def months_of(known: Sequence[str], begin_us: int | None, until_us: int | None) -> list[str]:
    """The months that have something to say about a time; each says what lasts from the ones before it."""
    within = [month for month in known if until_us is None or month <= month_of(until_us)]
    if begin_us is None:
        return within[-NEWEST_MONTHS:]
    return [month for month in within if month >= month_of(begin_us)]


def cluster_in(cursor: Cursor) -> str:
    """The cluster whose months these are. Raises InputError for a ledger of another version."""
    cursor.execute("SELECT version, cluster FROM gpufleet_ledger")
    found = cursor.fetchone()
    if found is None:
        raise InputError("names no cluster", field="gpufleet_ledger", expected="one row")
    version, cluster = found
    if version != SCHEMA_VERSION:
        raise InputError(
            "unknown version", field="gpufleet_ledger", value=version, expected=str(SCHEMA_VERSION)
        )
    return str(cluster)


def months_in(cursor: Cursor, *, sealed: bool) -> list[str]:
    """The months that are sealed, or those that still grow, oldest first."""
    cursor.execute(
        "SELECT month FROM gpufleet_months WHERE (checksum IS NOT NULL) = %s ORDER BY month", [sealed]
    )
    return [str(month) for (month,) in cursor]


def lines_of(cursor: Cursor, month: str, cluster: str) -> Iterator[bytes]:
    """The lines of a month, heading first. Raises InputError for a sealed one that was changed."""
    # From here on the lines of an open month stay: its seal waits for the end of this transaction.
    cursor.execute("LOCK TABLE gpufleet_observations IN ACCESS SHARE MODE")
    cursor.execute("SELECT checksum FROM gpufleet_months WHERE month = %s", [month])
    found = cursor.fetchone()
    if found is not None and found[0] is not None:
        yield from _sealed_lines(cursor, month, str(found[0]))
        return
    yield heading_line(cluster)
    with cursor.connection.cursor(name="gpufleet_lines") as lines:
        lines.itersize = LINES_PER_FETCH
        lines.execute("SELECT line FROM gpufleet_observations WHERE month = %s", [month])
        for (line,) in lines:
            yield f"{line}\n".encode()


def _sealed_lines(cursor: Cursor, month: str, checksum: str) -> Iterator[bytes]:
    content = sealed_content(cursor, month)
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        expected = f"the checksum {checksum} of gpufleet_months"
        raise InputError(
            "was changed after it was sealed", field=f"month {month}", value=found, expected=expected
        )
    # DuckDB reads files.
    with tempfile.TemporaryDirectory(prefix="gpufleet-month-") as folder:
        path = Path(folder, f"{month}.parquet")
        write_whole(path, content)
        yield from parquet_lines(path)


def sealed_content(cursor: Cursor, month: str) -> bytes:
    """The Parquet of a sealed month."""
    cursor.execute("SELECT content FROM gpufleet_sealed WHERE month = %s ORDER BY part", [month])
    return b"".join(bytes(content) for (content,) in cursor)
