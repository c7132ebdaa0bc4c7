"""Events of the operator, on the objects that they are about, in words for those who look at them."""

import datetime as dt
import secrets
from typing import Any

from gpufleet.kube.codec.times import micro_time
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.resources import EVENTS, Kind

CONTROLLER = "gpufleet.io/operator"
NOTE_CHARACTERS_MAX = 1000
"""The API takes 1,024 bytes."""

OF_THE_CLUSTER = "default"
"""The namespace of Events on objects that have none."""


def event_of(
    kind: Kind, metadata: Metadata, reason: str, note: str, now: dt.datetime, *, action: str, warns: bool
) -> dict[str, Any]:
    """An Event on an object."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {
            # A name has at most 253 characters, and 17 are added.
            "name": f"{metadata.name[:200]}.{secrets.token_hex(8)}",
            "namespace": metadata.namespace or OF_THE_CLUSTER,
        },
        "eventTime": micro_time(now.astimezone(dt.UTC)),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": action,
        "reason": reason,
        "type": "Warning" if warns else "Normal",
        "note": note[:NOTE_CHARACTERS_MAX],
        "regarding": {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            **({"namespace": metadata.namespace} if metadata.namespace else {}),
            "name": metadata.name,
            "uid": metadata.uid,
        },
    }
