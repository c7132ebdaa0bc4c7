"""The months of one cluster in tables, for the process that keeps them.

Every method is one transaction, so a kill at any moment leaves all of it or nothing. A line is known again by
its checksum, so what is written twice stands once. A month's row in gpufleet_months is locked by what adds to
the month and by what seals it, so they take turns.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from psycopg import sql

from gpufleet.ledger.database.address import DatabaseAddress
from gpufleet.ledger.database.connecting import Cursor, DatabaseConnection
from gpufleet.ledger.database.stored_months import SCHEMA_VERSION, cluster_in, lines_of, months_in
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import Origin, read_log
from gpufleet.ledger.sealed_month import columns_of, parquet_of
from gpufleet.model.model_errors import InputError

SETUP_LOCK = 0x67_70_75_66_6C_65_65_74
"""The number of the lock under which tables are made: "gpufleet"."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS gpufleet_ledger (version integer NOT NULL, cluster text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS gpufleet_months (month text PRIMARY KEY, checksum text)",
    """CREATE TABLE IF NOT EXISTS gpufleet_sealed (
        month text NOT NULL, part integer NOT NULL, content bytea NOT NULL, PRIMARY KEY (month, part)
    )""",
    """CREATE TABLE IF NOT EXISTS gpufleet_observations (
        month text NOT NULL, checksum bytea NOT NULL, type text NOT NULL, uid text, number bigint,
        at_us bigint, line text NOT NULL, PRIMARY KEY (month, checksum)
    ) PARTITION BY LIST (month)""",
)
"""``checksum`` is null in gpufleet_months while a month grows."""

INSERT = (
    "INSERT INTO gpufleet_observations (month, checksum, type, uid, number, at_us, line)"
    " SELECT %s, * FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[])"
    " ON CONFLICT DO NOTHING"
)

SIZE = (
    "SELECT pg_total_relation_size('gpufleet_sealed') + coalesce(sum(pg_total_relation_size(inhrelid)), 0)"
    " FROM pg_inherits WHERE inhparent = 'gpufleet_observations'::regclass"
)

LINES_PER_INSERT = 10_000
"""So many lines are sent at once."""

PART_BYTES = 16 * 1024 * 1024
"""A value of PostgreSQL has at most 1 GiB, and is in memory as a whole."""


class MonthTables:
    """The months of one cluster in a database. All methods raise DatabaseError."""

    def __init__(self, address: DatabaseAddress, cluster: str) -> None:
        """Make the tables if they are not there. Raises InputError for those of another cluster."""
        self.address = address
        self.cluster = cluster
        self._connection = DatabaseConnection(address)
        try:
            with self._connection.transaction() as cursor:
                self._set_up(cursor)
        except BaseException:
            self.close()
            raise

    def _set_up(self, cursor: Cursor) -> None:
        cursor.execute("SHOW server_encoding")
        ((encoding,),) = cursor.fetchall()
        if encoding != "UTF8":
            raise InputError("not in UTF-8", where=self.address.name, value=encoding, expected="UTF8")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SETUP_LOCK])
        for table in TABLES:
            cursor.execute(table)  # type: ignore[arg-type,unused-ignore]
        cursor.execute(
            "INSERT INTO gpufleet_ledger (version, cluster)"
            " SELECT %s, %s WHERE NOT EXISTS (SELECT FROM gpufleet_ledger)",
            [SCHEMA_VERSION, self.cluster],
        )
        known = cluster_in(cursor)
        if known != self.cluster:
            expected = f"{self.cluster}, or another database or schema for each cluster"
            raise InputError("is of another cluster", where=self.address.name, value=known, expected=expected)

    def open_months(self) -> list[str]:
        """The months that still grow, oldest first."""
        with self._connection.transaction() as cursor:
            return months_in(cursor, sealed=False)

    def sealed_months(self) -> list[str]:
        """The months that change no more, oldest first."""
        with self._connection.transaction() as cursor:
            return months_in(cursor, sealed=True)

    def size_bytes(self) -> int:
        """How much all months hold on the server, with their indexes."""
        with self._connection.transaction() as cursor:
            cursor.execute(SIZE)
            ((size,),) = cursor.fetchall()
            return int(size)

    def read_open(self, month: str) -> IntervalLog:
        """What a month that grows has seen."""
        with self._connection.transaction() as cursor:
            return self._read(cursor, month)

    def read_sealed(self, month: str) -> IntervalLog:
        """What a sealed month has seen. Raises InputError for one that was changed."""
        return self.read_open(month)

    def _read(self, cursor: Cursor, month: str) -> IntervalLog:
        log = IntervalLog()
        origin = Origin(self.cluster, self.address.name)
        read_log(lines_of(cursor, month, self.cluster), f"{self.address.name}, {month}", log, origin)
        return log

    def append(self, month: str, lines: Sequence[bytes]) -> bool:
        """Add lines to a month, which begins with the first; false for one that is sealed."""
        with self._connection.transaction() as cursor:
            cursor.execute("INSERT INTO gpufleet_months (month) VALUES (%s) ON CONFLICT DO NOTHING", [month])
            if cursor.rowcount:
                made = "CREATE TABLE {} PARTITION OF gpufleet_observations FOR VALUES IN ({})"
                cursor.execute(sql.SQL(made).format(_partition(month), sql.Literal(month)))
            # Until this transaction ends the month cannot be sealed.
            cursor.execute("SELECT checksum FROM gpufleet_months WHERE month = %s FOR SHARE", [month])
            if cursor.fetchall() != [(None,)]:
                return False
            for first in range(0, len(lines), LINES_PER_INSERT):
                _insert(cursor, month, lines[first : first + LINES_PER_INSERT])
        return True

    def seal(self, month: str, log: IntervalLog) -> None:
        """Put the Parquet of a month in the place of its lines, with what others have written of it."""
        with self._connection.transaction() as cursor:
            cursor.execute("SELECT checksum FROM gpufleet_months WHERE month = %s FOR UPDATE", [month])
            if cursor.fetchall() != [(None,)]:
                return
            whole = self._read(cursor, month)
            whole.merge(log)
            with tempfile.TemporaryDirectory(prefix="gpufleet-month-") as folder:
                content = parquet_of(Path(folder, "month.parquet"), whole, self.cluster)
            for part, first in enumerate(range(0, len(content), PART_BYTES)):
                piece = content[first : first + PART_BYTES]
                cursor.execute("INSERT INTO gpufleet_sealed VALUES (%s, %s, %s)", [month, part, piece])
            checksum = hashlib.sha256(content).hexdigest()
            cursor.execute("UPDATE gpufleet_months SET checksum = %s WHERE month = %s", [checksum, month])
            cursor.execute(sql.SQL("DROP TABLE {}").format(_partition(month)))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _insert(cursor: Cursor, month: str, lines: Sequence[bytes]) -> None:
    whole = [line.rstrip(b"\n") for line in lines]
    about = [columns_of(line) for line in whole]
    cursor.execute(
        INSERT,
        [
            month,
            [hashlib.sha256(line).digest() for line in whole],
            [one.type for one in about],
            [one.uid for one in about],
            [one.number for one in about],
            [one.at_us for one in about],
            [line.decode() for line in whole],
        ],
    )


def _partition(month: str) -> sql.Identifier:
    return sql.Identifier(f"gpufleet_observations_{month.replace('-', '_')}")
