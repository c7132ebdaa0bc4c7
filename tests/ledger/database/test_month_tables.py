"""Months in PostgreSQL are those in files, byte for byte, however often a writer or the server was killed."""

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.database.address import DatabaseAddress, address_of
from gpufleet.ledger.database.connecting import DatabaseConnection
from gpufleet.ledger.database.database_errors import DatabaseError
from gpufleet.ledger.database.month_tables import MonthTables
from gpufleet.ledger.database.stored_months import months_of, sealed_content
from gpufleet.ledger.interval_log import IntervalLog, encoded
from gpufleet.ledger.log_file import added, written
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.months import begin_us, month_of
from gpufleet.ledger.open_months import MonthStore, OpenMonths
from gpufleet.model.model_errors import InputError
from tests.ledger.database.server import PASSWORD, Server, a_server
from tests.ledger.recording import observations
from tests.ledger.test_month_files import (
    AFTER_US,
    CLUSTER,
    KILLED,
    NOVEMBER,
    OCTOBER,
    batches,
    log_of,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    before = os.environ.get("PGPASSWORD")
    os.environ["PGPASSWORD"] = PASSWORD
    with a_server() as running:
        yield running
    os.environ.pop("PGPASSWORD")
    if before is not None:
        os.environ["PGPASSWORD"] = before


def whole_life(store: MonthStore, parts: list[IntervalLog]) -> None:
    """All that a writer does: October grows, November begins, October is sealed."""
    months = OpenMonths(store)
    if OCTOBER not in store.sealed_months():
        months.begin(OCTOBER)
        for part in parts:
            months.add(part)
    months.begin(NOVEMBER)
    months.seal(AFTER_US)
    store.close()


def sealed(address: DatabaseAddress) -> bytes:
    """The Parquet of October."""
    with closing(DatabaseConnection(address)) as connection, connection.transaction() as cursor:
        return sealed_content(cursor, OCTOBER)


def grown(server: Server, address: DatabaseAddress) -> tuple[object, ...]:
    """What November has, and which tables there are."""
    schema = address.url.rpartition("%3D")[2]
    lines = server.say("SELECT line FROM gpufleet_observations ORDER BY line", schema)
    tables = server.say(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema::regnamespace ORDER BY 1", schema
    )
    return (lines, tables)


@pytest.fixture(scope="module")
def in_files(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """October as files have it."""
    folder = tmp_path_factory.mktemp("files")
    whole_life(MonthFiles(folder, CLUSTER), batches())
    return (folder / f"{OCTOBER}.parquet").read_bytes()


def run_until_killed(address: DatabaseAddress, parts: list[IntervalLog], number: int) -> bool:
    """Whether a process of its own came to its end before that statement or commit."""
    child = os.fork()
    if child == 0:
        try:
            left = number

            def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
                def call(*arguments: Any, **named: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        os._exit(KILLED)
                    return real(*arguments, **named)

                return call

            psycopg.Cursor.execute = deadly(psycopg.Cursor.execute)  # type: ignore[method-assign,unused-ignore]
            psycopg.Transaction._commit_gen = deadly(psycopg.Transaction._commit_gen)  # type: ignore[method-assign,unused-ignore]
            whole_life(MonthTables(address, CLUSTER), parts)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, KILLED}
    return code == 0


def test_killed_at_every_statement_the_months_are_those_of_files(server: Server, in_files: bytes) -> None:
    parts = batches(number=2)
    calm = server.address()
    whole_life(MonthTables(calm, CLUSTER), parts)
    assert sealed(calm) == in_files
    expected = grown(server, calm)
    number, done = 0, False
    while not done:
        address = server.address()
        done = run_until_killed(address, parts, number)
        whole_life(MonthTables(address, CLUSTER), parts)
        assert sealed(address) == in_files, number
        found = grown(server, address)
        assert found == expected, number
        number += 1
    # Statements and commits of a whole life.
    assert number > 25


def test_two_writers_at_once_doubled_and_shuffled_make_the_month_of_files(
    server: Server, in_files: bytes
) -> None:
    for seed in range(5):
        draw = random.Random(seed)
        parts = [*batches(seed), *batches(seed + 1)]
        draw.shuffle(parts)
        address = server.address()
        first = OpenMonths(MonthTables(address, CLUSTER))
        first.begin(OCTOBER)
        second = OpenMonths(MonthTables(address, CLUSTER))
        for part in parts[:-1]:
            draw.choice([first, second]).add(part)
        # What the other one writes late is sealed too, and what comes later still finds the month sealed.
        second.add(parts[-1])
        first.begin(NOVEMBER)
        assert first.seal(AFTER_US) == [OCTOBER]
        assert second.add(log_of(observations()[:3])) == 0
        assert sealed(address) == in_files
        first.store.close()
        second.store.close()


def test_a_server_that_is_killed_keeps_what_was_acknowledged_and_the_rest_is_written_later(
    server: Server, in_files: bytes
) -> None:
    address = server.address()
    first, second, *others = batches()
    months = OpenMonths(MonthTables(address, CLUSTER))
    months.begin(OCTOBER)
    months.add(first)
    server.kill()
    with pytest.raises(DatabaseError, match="failed"):
        months.add(second)
    server.start()
    kept = OpenMonths(MonthTables(address, CLUSTER))
    assert encoded(kept.log.intervals()) == encoded(first.intervals())
    kept.store.close()
    for part in others:
        months.add(part)
    months.begin(NOVEMBER)
    months.seal(AFTER_US)
    months.store.close()
    assert sealed(address) == in_files


def test_a_sealed_month_that_was_changed_and_a_ledger_of_others_are_refused(server: Server) -> None:
    schema = server.schema()
    address = server.address(schema)
    with pytest.raises(InputError, match="has no ledger"):
        sealed(address)
    whole_life(MonthTables(address, CLUSTER), batches())
    with pytest.raises(InputError, match="is of another cluster"):
        MonthTables(address, "c-2")
    server.say("UPDATE gpufleet_sealed SET content = content || '\\x00'", schema)
    tables = MonthTables(address, CLUSTER)
    with pytest.raises(InputError, match="was changed after it was sealed"):
        tables.read_sealed(OCTOBER)
    server.say("UPDATE gpufleet_ledger SET version = 2", schema)
    with pytest.raises(InputError, match="unknown version"):
        MonthTables(address, CLUSTER)
    tables.close()


def test_the_columns_beside_a_line_say_what_it_is_about(server: Server) -> None:
    address = server.address()
    tables = MonthTables(address, CLUSTER)
    lines = list(added(IntervalLog(), log_of(observations())))
    tables.append(OCTOBER, lines)
    assert tables.size_bytes() > 0
    assert tables.open_months() == [OCTOBER]
    tables.close()
    schema = address.url.rpartition("%3D")[2]
    found = server.say(
        "SELECT count(*) FROM gpufleet_observations WHERE type = line::json->>'type'"
        " AND uid IS NOT DISTINCT FROM line::json->>'uid' AND checksum = sha256(line::bytea)"
        " AND number IS NOT DISTINCT FROM (line::json->>'number')::bigint",
        schema,
    )
    assert found == [(len(lines),)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ledger", "no database"),
        ("postgresql://host/ledger?no=such", "no database"),
        ("postgresql://me:secret@host/ledger", "a password in the URL"),
    ],
)
def test_a_bad_url_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        address_of(text, "--database")
    assert "secret" not in str(refused.value)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    address = address_of(f"postgresql://nobody@/ledger?host={tmp_path}", "--database")
    with pytest.raises(DatabaseError, match=r"the database .* failed"):
        MonthTables(address, CLUSTER)


def test_the_checksum_is_that_of_the_content(server: Server, in_files: bytes) -> None:
    address = server.address()
    whole_life(MonthTables(address, CLUSTER), batches())
    schema = address.url.rpartition("%3D")[2]
    assert server.say("SELECT month, checksum FROM gpufleet_months ORDER BY month", schema) == [
        (OCTOBER, hashlib.sha256(in_files).hexdigest()),
        (NOVEMBER, None),
    ]


def test_cost_answers_from_a_database_as_from_the_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    address = server.address()
    log = log_of(observations())
    Path("month.ledger").write_bytes(b"".join(written(log, CLUSTER)))
    months = OpenMonths(MonthTables(address, CLUSTER))
    months.begin(month_of(log.known_until_us()))
    months.add(log)
    months.store.close()
    # A person who reads needs to select, and nothing else.
    schema = address.url.rpartition("%3D")[2]
    server.say(f"CREATE ROLE reader_{schema} LOGIN PASSWORD '{PASSWORD}'", schema)
    server.say(f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}", schema)
    server.say(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}", schema)
    assert main(["cost", "month.ledger", "--by", "bucket", "-o", "csv"]) == ExitCode.DONE
    of_file = capsys.readouterr().out
    assert (
        main(["cost", server.url(schema, f"reader_{schema}"), "--by", "bucket", "-o", "csv"]) == ExitCode.DONE
    )
    assert capsys.readouterr().out == of_file
    assert len(of_file.splitlines()) > 2


def test_months_of_a_time_are_those_that_it_touches() -> None:
    known = ["2026-08", "2026-09", "2026-10", "2026-11"]
    assert months_of(known, None, None) == ["2026-10", "2026-11"]
    assert months_of(known, begin_us("2026-09"), begin_us("2026-10") - 1) == ["2026-09"]
    assert months_of(known, None, begin_us("2026-09")) == ["2026-08", "2026-09"]
    assert months_of(known, 0, None) == known
