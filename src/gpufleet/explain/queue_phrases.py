"""What people read of a queue's waiting work and its amounts; ``gpufleet queues`` and ``gpufleet top`` say it
alike.
"""

from gpufleet.explain.queue_answer import QueueRow, WaitingRow
from gpufleet.model.quantity import parse_quantity

REASONS = {
    "quota": "quota",
    "nodes": "nodes",
    "turn": "behind others",
    "backoff": "pause",
    "nominated": "room coming free",
    "reserved": "place reserved",
    "incomplete-gang": "members to come",
    "starts": "about to start",
    "unknown": "unknown queue",
    "inner": "not a leaf",
    "cycle": "a circle of parents",
    "no-parent": "parent missing",
    "too-deep": "too deep",
}
"""What people read for a reason; others as they are."""


def waiting_words(one: WaitingRow) -> str:
    """What a workload waits for, and of nodes also the cause, as ``explain`` tells it."""
    words = REASONS.get(one.reason, one.reason)
    cause = f" ({one.cause})" if one.reason == "nodes" and one.cause else ""
    return f"{words}{cause}" + (f": {one.why}" if one.why else "")


def queue_words(row: QueueRow) -> str:
    """The queue's state where it is not open, what is wrong with it, and how many pods wait for what."""
    state = "" if row.policy is None or row.policy.state == "Open" else row.policy.state.lower()
    problem = row.problems[0].reason if row.problems and not row.active else ""
    broken = f"! {problem}" if problem.lower() != state else ""
    reasons = [f"{one.pods} {REASONS.get(one.reason, one.reason)}" for one in row.pending]
    return ", ".join(part for part in (state, broken, *reasons) if part)


def plain(amount: str) -> str:
    """An amount as people read it: 17.5 for 17500m, sizes as they are."""
    if amount.endswith("m"):
        return f"{parse_quantity(amount).nano / 10**9:.12g}"
    return amount
