"""What a grant gives: its devices, and the terms by which the pod was let in.

Grants of any version are read as far as they can be: the devices that a grant names are taken, whatever else
it says.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from gpufleet.auditor import pods
from gpufleet.auditor.reading import number
from gpufleet.auditor.record import Document

WHOLE = "whole"
SHARE = "share"
MIG = "mig"
WHOLE_MILLI = 1000
"""Thousandths of one GPU, in which a grant counts shares."""

PROFILE = re.compile(r"^([0-9]+)g\.")


@dataclass(frozen=True, slots=True)
class Part:
    """A device, or a part of it."""

    device: str
    kind: str = WHOLE
    gpu_milli: int = WHOLE_MILLI
    memory_mib: int = 0
    mig_profile: str = ""
    mig_start: int | None = None

    @property
    def slices(self) -> int:
        """Compute slices of a MIG instance, 0 of what is none."""
        found = PROFILE.match(self.mig_profile)
        return int(found[1]) if found else 0

    @property
    def place(self) -> tuple[str, int | None]:
        """What no other may have too, of whole devices and instances."""
        return self.device, self.mig_start


@dataclass(frozen=True, slots=True)
class Grant:
    """A pod's grant. ``queue`` is None where it does not say by which queue it was let in."""

    version: int
    epoch: int
    by_container: dict[str, tuple[Part, ...]]
    terms: dict[str, Any]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each part once: containers of one pod may hand a device on."""
        return tuple({part.place: part for given in self.by_container.values() for part in given}.values())

    @property
    def queue(self) -> str | None:
        """The queue by which the pod was let in."""
        found = self.terms.get("queue")
        return found if isinstance(found, str) else None

    @property
    def is_protected(self) -> bool:
        """Whether the pod is never evicted for others' sake."""
        return self.terms.get("preemptible") is False


def of_pod(pod: Document) -> Grant | None:
    """The grant of a pod, None where there is none or where nothing can be read from it."""
    text = pods.note(pod, pods.GRANT)
    if text is None:
        return None
    try:
        value = json.loads(text)
        given = {
            str(key): tuple(map(read_part, parts)) for key, parts in (value.get("containers") or {}).items()
        }
        terms = value.get("terms")
        found = terms if isinstance(terms, dict) else {}
        return Grant(int(value["v"]), int(value.get("epoch", 0)), given, found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_part(value: Document) -> Part:
    """A device of a grant, or of what a node reports as held."""
    start = value.get("migStart")
    return Part(
        str(value.get("id") or value["device"]),
        str(value.get("kind") or WHOLE),
        number(value.get("gpuMilli"), WHOLE_MILLI),
        number(value.get("memoryMiB")),
        str(value.get("migProfile") or ""),
        number(start) if start is not None else None,
    )
