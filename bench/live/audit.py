"""What the API server itself wrote down about a scheduler: when it listed, what it wrote, and when.

Both schedulers are measured by the same clock in the same place, without one more request. The policy
keeps a line for every answered request of theirs and nothing else.
"""

import datetime as dt
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

BOUND = "pods/binding"
CONDITION = "pods/status"


def policy(users: list[str]) -> dict[str, object]:
    """The audit policy: requests of these users, without their bodies."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": users}, {"level": "None"}],
    }


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class Entry(msgspec.Struct, rename="camel"):
    """One line of the log."""

    verb: str
    request_received_timestamp: dt.datetime
    stage_timestamp: dt.datetime
    user: _User
    object_ref: _Reference = _Reference()
    response_status: _Status = _Status()

    @property
    def kind(self) -> str:
        """Resource and subresource."""
        reference = self.object_ref
        return (
            f"{reference.resource}/{reference.subresource}" if reference.subresource else reference.resource
        )


LINE_BYTES_MAX = 1024 * 1024
"""No line is longer: the log has no bodies of requests."""

_ENTRY = msgspec.json.Decoder(Entry)
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Story:
    """What one user did since a moment. Times are seconds since the epoch."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.first_list_s: float | None = None
        self.bound_s: dict[str, float] = {}
        self.told_s: dict[str, float] = {}
        self.writes: Counter[str] = Counter()
        self.last_event_s = 0.0

    @property
    def events(self) -> int:
        """How many Events it wrote."""
        return self.writes["create events"]

    @property
    def last_bind_s(self) -> float:
        """When the last nodeName was written."""
        return max(self.bound_s.values())

    def add(self, entry: Entry) -> None:
        """Take one line in."""
        at_s = entry.stage_timestamp.timestamp()
        if entry.verb in ("list", "watch") and self.first_list_s is None:
            self.first_list_s = entry.request_received_timestamp.timestamp()
        if entry.verb not in WRITES or entry.response_status.code >= 300:
            if entry.verb in WRITES:
                self.writes[f"refused {entry.verb} {entry.kind} with {entry.response_status.code}"] += 1
            return
        self.writes[f"{entry.verb} {entry.kind}"] += 1
        if entry.kind == BOUND:
            self.bound_s[entry.object_ref.name] = at_s
        elif entry.kind == CONDITION:
            self.told_s.setdefault(entry.object_ref.name, at_s)
        elif entry.kind == "events":
            self.last_event_s = at_s


class Listener:
    """Reads the log as it grows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at, self._rest = 0, b""
        self.skip()

    def skip(self) -> None:
        """Leave out the lines that have been written until now; one that is half written is read whole."""
        self._at, self._rest = 0, b""
        if self._log.exists():
            with self._log.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                begin = file.seek(max(0, end - LINE_BYTES_MAX))
                self._at = begin + file.read(end - begin).rfind(b"\n") + 1

    def read(self, story: Story) -> None:
        """Take in every whole line that was added."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            entry = _ENTRY.decode(line)
            if entry.user.username == story.user:
                story.add(entry)

    def until(
        self, story: Story, done: Callable[[Story], bool], limit_s: float, *, look_s: float = 0.1
    ) -> bool:
        """Read until the story is done; False if that takes too long."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            self.read(story)
            if done(story):
                return True
            time.sleep(look_s)
        return False
