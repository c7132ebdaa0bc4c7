"""A JupyterHub is asked when people were last at work, and what is quiet is idle only if the hub says so too.

The answers are those of the hub's API as its documentation shows them: pages of users with their servers.
"""

import contextlib
import datetime as dt
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.operator.parking.activity import Activity, Judgement
from gpufleet.operator.parking.hub_sessions import HubServer, JupyterHub, hub_if_any, judged_with
from tests.operator.parking.measured import MINUTE_US, NOW_US

NOON = "2026-11-30T12:00:00.000000Z"
NOON_US = round(dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC).timestamp() * 1e6)


def user(name: str, **servers: str | None) -> dict[str, object]:
    """A user with servers of these names; "own" is the one without a name."""
    named = {key.replace("own", ""): at for key, at in servers.items()}
    return {
        "kind": "user",
        "name": name,
        "last_activity": NOON,
        "servers": {key: {"name": key, "last_activity": at, "ready": True} for key, at in named.items()},
    }


class _Hub(http.server.BaseHTTPRequestHandler):
    users: tuple[dict[str, object], ...] = ()
    page_size = 2
    is_old = False
    status = 200

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        first = int(asked["offset"][0])
        is_told = self.headers["Authorization"] == "token secret" and asked["state"] == ["active"]
        self.send_response(self.status if is_told else 403)
        self.end_headers()
        page = self.users[first : first + self.page_size]
        following = first + self.page_size
        more = {"offset": following, "limit": self.page_size} if following < len(self.users) else None
        paged = {"items": page, "_pagination": {"offset": first, "total": len(self.users), "next": more}}
        self.wfile.write(json.dumps(list(self.users) if self.is_old else paged).encode())

    def log_message(self, *_: object) -> None:
        """Silence."""


@contextlib.contextmanager
def hub(folder: Path, *users: dict[str, object], **more: object) -> Iterator[JupyterHub]:
    """A hub with these users, and the client that asks it with its token."""
    token = folder / "token"
    token.write_text("secret\n", encoding="utf-8")
    kind = type("Hub", (_Hub,), {"users": users, **more})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found = hub_if_any(f"http://127.0.0.1:{server.server_port}/hub/api", "jhub", token, None)
        assert found is not None
        yield found
        server.shutdown()


def test_every_server_of_every_page_is_told_with_its_last_activity(tmp_path: Path) -> None:
    users = (
        user("ada", own=NOON),
        user("bob@example.com", own="2026-11-30T11:00:00Z", gpu="2026-11-30T11:30:00.5Z"),
        user("cleo", own=None),
        user("dora"),
        user("eve", own=NOON),
    )
    known = {
        HubServer("ada", ""): NOON_US,
        HubServer("bob@example.com", ""): NOON_US - 60 * MINUTE_US,
        HubServer("bob@example.com", "gpu"): NOON_US - 30 * MINUTE_US + 500_000,
        HubServer("eve", ""): NOON_US,
    }
    with hub(tmp_path, *users) as found:
        assert found.last_seen() == known
    with hub(tmp_path, *users, is_old=True) as older:
        assert older.last_seen() == known


@pytest.mark.parametrize("changed", [{"status": 403}, {"status": 500}])
def test_a_hub_that_refuses_is_no_answer(tmp_path: Path, changed: Mapping[str, object]) -> None:
    with hub(tmp_path, user("ada", own=NOON), **changed) as found, pytest.raises(WorldError, match="answers"):
        found.last_seen()


def test_a_hub_that_is_not_there_is_no_answer(tmp_path: Path) -> None:
    with hub(tmp_path) as found:
        pass
    with pytest.raises(WorldError, match="no answer from the JupyterHub at"):
        found.last_seen()


QUIET = Judgement(Activity.QUIET, NOW_US - 90 * MINUTE_US)
IDLE = Judgement(Activity.IDLE, NOW_US - 180 * MINUTE_US, holds_memory=True)


@pytest.mark.parametrize(
    ("measured", "seen_minutes_ago", "activity"),
    [
        (IDLE, 200, Activity.IDLE),
        (IDLE, 119, Activity.QUIET),
        (IDLE, None, Activity.UNKNOWN),
        (QUIET, 500, Activity.QUIET),
        (Judgement(Activity.WORKING, reason="GPU use"), 500, Activity.WORKING),
        (Judgement(Activity.UNKNOWN, reason="no sample"), 500, Activity.UNKNOWN),
    ],
)
def test_what_is_measured_as_idle_is_so_only_if_the_hub_saw_no_person(
    measured: Judgement, seen_minutes_ago: int | None, activity: Activity
) -> None:
    """After two hours."""
    last_us = 0 if seen_minutes_ago is None else NOW_US - seen_minutes_ago * MINUTE_US
    found = judged_with(measured, last_us, 120 * MINUTE_US, NOW_US)
    assert found.activity is activity
    if activity is Activity.IDLE:
        assert found.quiet_since_us == measured.quiet_since_us
        assert found.holds_memory


def test_options_of_a_hub_are_of_no_use_alone(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    assert hub_if_any(None, None, None, None) is None
    for url, namespace, file in (
        ("http://hub", None, token),
        ("http://hub", "jhub", None),
        (None, "jhub", None),
    ):
        with pytest.raises(InputError):
            hub_if_any(url, namespace, file, None)
