"""Warning Events as checks read them: what was told of an object, and when last."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import time_of
from gpufleet.lint.objects.manifest import Manifest


@dataclass(frozen=True)
class Warned:
    """An Event. ``subject`` is the title of what it is about and ``uid`` its UID, ``at`` when it was told."""

    subject: str
    uid: str
    reason: str
    message: str
    at: dt.datetime | None

    def is_about(self, manifest: Manifest) -> bool:
        """Whether it is about this object, and not about an earlier one of the same name."""
        uid = manifest.root.text_at("metadata", "uid")
        return self.subject == manifest.title and (not self.uid or self.uid == uid)

    def age_s(self, now: dt.datetime) -> float:
        """Seconds since; 0 where that is not told."""
        return 0.0 if self.at is None else (now - self.at).total_seconds()


def warnings_of(facts: Facts) -> Iterator[Warned]:
    """Every Event that was listed."""
    return map(_warned, facts.of_kind("Event"))


def _warned(event: Manifest) -> Warned:
    root = event.root
    about = root.at("involvedObject")
    kind, namespace, name = (about.text_at(one) or "" for one in ("kind", "namespace", "name"))
    # Kubelets put Events about nodes into the namespace default, and nodes have none.
    place = f"{namespace}/{name}" if namespace and kind != "Node" else name
    times = (
        root.at("series", "lastObservedTime"),
        root.at("lastTimestamp"),
        root.at("eventTime"),
        root.at("metadata", "creationTimestamp"),
    )
    at = next((time for one in times if (time := time_of(one)) is not None), None)
    reason, message = (root.text_at(one) or "" for one in ("reason", "message"))
    return Warned(f"{kind} {place}", about.text_at("uid") or "", reason, message, at)
