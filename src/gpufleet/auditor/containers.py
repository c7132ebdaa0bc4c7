"""What containers see, against grants and against each other: I14 beyond the grant, I4 below it, I1 for two
at once.
"""

from collections.abc import Iterator

from gpufleet.auditor import grants, pods
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.grants import Part
from gpufleet.auditor.record import Document
from gpufleet.auditor.rules import Evidence, Rules, Seen
from gpufleet.auditor.world import World


class Containers:
    """Grants by UID, kept when their pods are gone: a container may have been asked before that."""

    def __init__(self) -> None:
        self._pods: dict[str, Document] = {}

    def follow(self, pod: Document) -> None:
        """A pod as it is now."""
        if pods.node(pod):
            self._pods[pods.uid(pod)] = pod

    def judged(self, world: World, rules: Rules, evidence: Evidence) -> Iterator[Finding]:
        """Everything that containers saw and should not have, and the other way round."""
        seen = [one for one in evidence.containers or () if one.pod_uid in self._pods]
        for one in seen:
            yield from self._against_grant(one, world, rules)
        yield from self._at_once(seen, rules)

    def _parts(self, one: Seen) -> tuple[Part, ...]:
        grant = grants.of_pod(self._pods[one.pod_uid])
        if grant is None:
            return ()
        return grant.by_container.get(one.container, ())

    def _against_grant(self, one: Seen, world: World, rules: Rules) -> Iterator[Finding]:
        name = pods.name(self._pods[one.pod_uid])
        granted = {part.device for part in self._parts(one)}
        beyond, missing = one.devices - granted, granted - one.devices
        if one.pod_uid in rules.swapped and len(beyond) == len(missing):
            return
        if beyond:
            words = f"its container {one.container} sees {sorted(beyond)} beyond its grant"
            yield Finding("I14", world.at_s, (name,), words)
        if missing:
            words = f"its container {one.container} does not see {sorted(missing)}, which it was granted"
            yield Finding("I4", world.at_s, (name,), words)

    def _at_once(self, seen: list[Seen], rules: Rules) -> Iterator[Finding]:
        """Two containers of different pods that saw a device at the same time, one of them as a whole."""
        for position, first in enumerate(seen):
            for second in seen[position + 1 :]:
                if first.pod_uid == second.pod_uid or not _overlap(first, second):
                    continue
                for device in sorted(first.devices & second.devices):
                    parts = [
                        part for one in (first, second) for part in self._parts(one) if part.device == device
                    ]
                    # Parts of a device are given out to be used at the same time.
                    if len(parts) == 2 and all(part.kind != grants.WHOLE for part in parts):
                        continue
                    if {first.pod_uid, second.pod_uid} <= rules.swapped:
                        continue
                    names = tuple(pods.name(self._pods[one.pod_uid]) for one in (first, second))
                    at_s = max(first.from_s, second.from_s)
                    yield Finding("I1", at_s, names, f"both ran at the same time and see {device}")


def _overlap(first: Seen, second: Seen) -> bool:
    ends = [float("inf") if one.to_s is None else one.to_s for one in (first, second)]
    return first.from_s < ends[1] and second.from_s < ends[0]
