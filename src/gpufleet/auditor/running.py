"""I12: a running pod is left alone: it keeps its containers, devices and grant, unless an eviction names its
reason.
"""

from collections.abc import Iterator

from gpufleet.auditor import pods
from gpufleet.auditor.devices import held_by_pod
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.grants import Part
from gpufleet.auditor.reading import number, rows, section
from gpufleet.auditor.record import EVENTS, NODE_DEVICES, PODS, Document, Write
from gpufleet.auditor.rules import Rules
from gpufleet.auditor.world import World


class Running:
    """Containers and devices of every running pod, as they were seen first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._containers: dict[str, dict[str, tuple[str, int]]] = {}
        self._devices: dict[str, frozenset[Part]] = {}
        self._taken: list[tuple[float, Document, str]] = []
        self._told: set[str] = set()

    def follow(self, write: Write, world: World) -> Iterator[Finding]:
        """What broke with this write."""
        if write.kind == EVENTS:
            self._told.update(_regarding(write.latest))
        elif write.kind == NODE_DEVICES and write.value is not None:
            yield from self._held(write.value, world)
        elif write.kind == PODS:
            yield from self._pod(write, world)

    def at_rest(self) -> Iterator[Finding]:
        """Pods that the scheduler took away and that no Event and no condition gives a reason for."""
        for at_s, pod, user in self._taken:
            if pods.uid(pod) not in self._told:
                yield Finding("I12", at_s, (pods.name(pod),), f"it ran, and {user} ended it without a reason")

    def _pod(self, write: Write, world: World) -> Iterator[Finding]:
        uid, before, pod = pods.uid(write.latest), write.before, write.value
        if before is not None and pods.uid(before) == uid and pods.phase(before) == "Running":
            self._note_end(write, before)
        if pod is None or not pods.holds(pod):
            self._containers.pop(uid, None)
            self._devices.pop(uid, None)
            return
        if before is not None and pods.uid(before) == uid:
            yield from _kept_its_place(before, pod, world.at_s)
        if pods.phase(pod) == "Running":
            yield from self._kept_its_containers(uid, pod, world)

    def _note_end(self, write: Write, before: Document) -> None:
        pod = write.value
        going = pod is None or pods.is_leaving(pod)
        if not going or pods.is_leaving(before) or write.user not in self._rules.scheduler_users:
            return
        # Kubernetes' own condition of a pod that is evicted, which names the reason.
        if pods.condition(write.latest, "DisruptionTarget") is None:
            self._taken.append((write.at_s, write.latest, write.user))

    def _kept_its_containers(self, uid: str, pod: Document, world: World) -> Iterator[Finding]:
        known = self._containers.setdefault(uid, {})
        for status in rows(pod, "status", "containerStatuses"):
            name = str(status.get("name"))
            now = str(status.get("containerID") or ""), number(status.get("restartCount"))
            then = known.get(name)
            # Without an id the container was not started yet.
            if now[0]:
                known[name] = now
            if then is not None and now[0] and then != now and uid not in self._rules.restarted:
                words = f"its container {name} was started again while it ran"
                yield Finding("I12", world.at_s, (pods.name(pod),), words)

    def _held(self, report: Document, world: World) -> Iterator[Finding]:
        """The devices of a running pod are not exchanged; a report that lacks them for a while is judged at
        rest.
        """
        for uid, parts in held_by_pod(report).items():
            pod = world.living.get(uid)
            if pod is None or pods.phase(pod) != "Running":
                continue
            now = frozenset(parts)
            then = self._devices.setdefault(uid, now)
            if {part.place for part in then} != {part.place for part in now}:
                self._devices[uid] = now
                words = (
                    f"it held {_ids(then)} and now holds {_ids(now)}, by the report of {pods.name(report)}"
                )
                yield Finding("I12", world.at_s, (pods.name(pod),), words)


def _kept_its_place(before: Document, pod: Document, at_s: float) -> Iterator[Finding]:
    if pods.node(before) and pods.node(before) != pods.node(pod):
        yield Finding("I12", at_s, (pods.name(pod),), f"it went from {pods.node(before)} to {pods.node(pod)}")


def _regarding(event: Document) -> list[str]:
    """The UIDs of the objects that an Event of either form is about."""
    found = [section(event, field) for field in ("regarding", "involvedObject")]
    return [str(one["uid"]) for one in found if one.get("uid") and event.get("reason")]


def _ids(parts: frozenset[Part]) -> str:
    return ", ".join(sorted(part.device for part in parts))
