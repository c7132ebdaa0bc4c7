"""A listener to an API server's audit log begins with whole lines."""

import json
from pathlib import Path

from bench.live.audit import Listener, Story

AT = "2026-11-29T03:00:00.000000Z"


def entry(pod: str) -> bytes:
    """A line of the log: a user binds a pod."""
    return (
        json.dumps(
            {
                "stageTimestamp": AT,
                "requestReceivedTimestamp": AT,
                "verb": "create",
                "user": {"username": "us"},
                "objectRef": {"resource": "pods", "subresource": "binding", "name": pod},
                "responseStatus": {"code": 201},
            }
        ).encode()
        + b"\n"
    )


def test_what_was_written_before_is_left_out_and_a_line_that_is_half_written_is_read_whole(
    tmp_path: Path,
) -> None:
    log = tmp_path / "audit.log"
    half = entry("second")
    log.write_bytes(entry("first") + half[:40])
    listener, story = Listener(log), Story("us")
    with log.open("ab") as file:
        file.write(half[40:] + entry("third"))
    listener.read(story)
    assert set(story.bound_s) == {"second", "third"}


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    listener, story = Listener(log), Story("us")
    log.write_bytes(entry("first"))
    listener.read(story)
    assert set(story.bound_s) == {"first"}
