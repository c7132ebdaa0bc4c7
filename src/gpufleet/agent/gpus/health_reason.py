"""Why a GPU is out of service, as one of a few words for a label or a taint.

The reason itself is a sentence for people, with figures in it, of which there is no end. A label has few
values, so that an alert can name them. The sentences are those of ``devices.health`` and
``devices.threaded_backend``.
"""

import re

from gpufleet.devices.health import Verdict

HEALTHY = "none"
OTHER = "other"
CLASSES = {
    "Xid ": "xid",
    "the driver does not find it": "missing",
    "the driver asks: ": "recovery_action",
    "a broken row of its memory": "row_remap",
    "it recovered and has to be quiet": "recovering",
    "no answer to ": "no_answer",
}
"""By how the sentence begins."""

_XID = re.compile(r"(?:^|; )Xid ([0-9]{1,5})\b")


def reason_class(verdict: Verdict, reason: str) -> str:
    """The class of the first reason."""
    if verdict is Verdict.HEALTHY:
        return HEALTHY
    for beginning, name in CLASSES.items():
        if reason.startswith(beginning):
            return name
    return "no_answer" if verdict is Verdict.UNKNOWN else OTHER


def reason_slug(verdict: Verdict, reason: str) -> str:
    """The class; or the first Xid by its number ("xid-79"), whatever else there is: each has its meaning."""
    code = _XID.search(reason)
    return reason_class(verdict, reason) if code is None else f"xid-{code[1]}"
