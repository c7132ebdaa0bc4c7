"""Where a database is: a URL as PostgreSQL's own programs take it, without a password."""

from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from gpufleet.model.model_errors import InputError, printable

SCHEMES = ("postgresql://", "postgres://")
"""How a URL of a database begins."""

EXPECTED = "a URL such as postgresql://gpufleet@db.example.com/ledger"
"""What is expected of a URL."""

CONNECT_S = 10
"""How long the first answer of a server may take, where the URL says nothing else."""

SILENCE_MS = 30_000
"""After so long without an answer to what was sent, a connection counts as lost."""


class DatabaseAddress(msgspec.Struct, frozen=True):
    """The URL, and the name of the database as messages and notes show it."""

    url: str
    name: str

    def parameters(self) -> dict[str, Any]:
        """What a connection is opened with."""
        return {"connect_timeout": CONNECT_S, "tcp_user_timeout": SILENCE_MS, **conninfo_to_dict(self.url)}


def address_of(text: str, field: str) -> DatabaseAddress:
    """The address. Raises InputError for what is no URL, and for a password in it, which others could see."""
    if not text.startswith(SCHEMES):
        raise InputError("no database", field=field, value=text, expected=EXPECTED)
    try:
        parts = conninfo_to_dict(text)
    except psycopg.ProgrammingError as error:
        expected = f"{EXPECTED} ({str(error).strip()})"
        raise InputError("no database", field=field, value=text, expected=expected) from error
    if "password" in parts:
        expected = "the password in the environment as PGPASSWORD, or in a file that PGPASSFILE names"
        raise InputError("a password in the URL", field=field, expected=expected)
    name = "/".join(str(parts[part]) for part in ("host", "dbname") if part in parts)
    return DatabaseAddress(text, printable(name or text, 200))
