"""What differs between the course of things as they are and as they would be."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from gpufleet.engine.explanations.queue_report import QueueUse, ResourceUse
from gpufleet.kube.codec.quota_amounts import written_amount
from gpufleet.kube.objects.pod import Pod as PodObject
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import PodUid, QuotaResource
from gpufleet.model.shape import GpuRequest
from gpufleet.whatif.answer import QueueChange, Ready, Start, Work
from gpufleet.whatif.course import Course, Running, State, before_evictions

EXPLAINED_MAX = 50
"""Work of which it is said why it waits; of the rest only how many pods it has."""

Key = tuple[str, str, str]
Select = Callable[[PodUid], bool]


class Difference:
    """Two courses, over the same pods but for what was submitted."""

    def __init__(self, before: Course, after: Course, submitted: Iterable[str]) -> None:
        self.before = before
        self.after = after
        self.submitted = frozenset(submitted)

    def starts(self) -> tuple[Work, ...]:
        """Work that starts, and would not without the changes, or later."""

        def concerns(uid: PodUid) -> bool:
            now, then = self.after.start_of(uid), self.before.start_of(uid)
            if now is None or self.before.state(uid) is State.RUNS:
                return False
            return then is None or _since(now.since_us) < _since(then.since_us)

        return tuple(
            self._work(key, uids, start=self._start(self.after, uids), before=self._start(self.before, uids))
            for key, uids in self._grouped(concerns)
        )

    def delayed(self) -> tuple[Work, ...]:
        """Work that would start without the changes, and does not, or later."""

        def concerns(uid: PodUid) -> bool:
            now, then = self.after.start_of(uid), self.before.start_of(uid)
            if then is None or uid in self.after.evictions:
                return False
            return now is None or _since(now.since_us) > _since(then.since_us)

        return tuple(
            self._work(
                key,
                uids,
                start=self._start(self.after, uids),
                before=self._start(self.before, uids),
                why=self._why(uids),
            )
            for key, uids in self._grouped(concerns)
        )

    def evicted(self) -> tuple[Work, ...]:
        """Work that is evicted, and would not be without the changes."""
        found = []
        for key, uids in self._grouped(
            lambda uid: uid in self.after.evictions and uid not in self.before.evictions
        ):
            again = [self.after.evictions[uid].again for uid in uids]
            back = [uid for uid in again if uid is not None]
            waits = [uid for uid in back if self.after.start_of(uid) is None]
            whom = dict.fromkeys(self.title(self.after.evictions[uid].beneficiary) for uid in uids)
            found.append(
                self._work(
                    key,
                    uids,
                    for_whom=", ".join(whom),
                    again=self._start(self.after, back),
                    waits_again=len(waits),
                    why=self.after.why(waits[0]) if waits else "",
                )
            )
        return tuple(found)

    def displaced(self) -> tuple[Work, ...]:
        """Work that runs and must leave its node, without being evicted for other work."""
        found = []
        for key, uids in self._grouped(self._must_leave):
            waits = [uid for uid in uids if self.after.state(uid) is State.WAITS]
            again = self._start(self.after, uids)
            found.append(self._work(key, uids, again=again, waits_again=len(waits), why=self._why(uids)))
        return tuple(found)

    def _must_leave(self, uid: PodUid) -> bool:
        stays = {State.RUNS, State.EVICTED, State.ABSENT}
        return self.before.state(uid) is State.RUNS and self.after.state(uid) not in stays

    def spared(self) -> tuple[Work, ...]:
        """Work that would be evicted without the changes."""
        chosen = self._grouped(
            lambda uid: uid in self.before.evictions and self.after.state(uid) is State.RUNS
        )
        return tuple(self._work(key, uids) for key, uids in chosen)

    def waits(self) -> tuple[tuple[Work, ...], int]:
        """What still waits in the end, what was asked about first, and how many pods are not listed."""
        waiting = set(self.after.waiting())
        groups = self._grouped(lambda uid: uid in waiting)
        # A stable sort: among both, the order by name stays.
        groups.sort(key=lambda group: not self.submitted.intersection(group[1]))
        listed = [self._work(key, uids, why=self._why(uids)) for key, uids in groups[:EXPLAINED_MAX]]
        return tuple(listed), sum(len(uids) for _, uids in groups[EXPLAINED_MAX:])

    def started(self, uids: frozenset[PodUid]) -> tuple[Work, ...]:
        """Work of these pods, with when and where they start."""
        groups = self._grouped(uids.__contains__)
        return tuple(self._work(key, found, start=self._start(self.after, found)) for key, found in groups)

    def waiting_of(self, uids: frozenset[PodUid]) -> tuple[Work, ...]:
        """Work of these pods, with why it waits, or when it starts all the same."""
        groups = self._grouped(uids.__contains__)
        return tuple(
            self._work(key, found, start=self._start(self.after, found), why=self._why(found))
            for key, found in groups
        )

    def queues(self) -> tuple[QueueChange, ...]:
        """The resources of which queues use, or may use, another amount at once."""
        before, after = _uses(self.before.usage), _uses(self.after.usage)
        found = []
        for key in dict.fromkeys((*before, *after)):
            was, now = before.get(key), after.get(key)
            change = QueueChange(
                key[0],
                key[1],
                _amount(key[1], 0 if was is None else was.used),
                _amount(key[1], 0 if now is None else now.used),
                _amount(key[1], 0 if was is None else was.nominal),
                _amount(key[1], 0 if now is None else now.nominal),
            )
            same_use = change.used_before == change.used_after
            if not same_use or change.nominal_before != change.nominal_after:
                found.append(change)
        return tuple(found)

    def title(self, beneficiary: str) -> str:
        """How people call the pod or gang of this id."""
        uid = PodUid(beneficiary)
        if uid in self.after.meanings:
            kind, namespace, name = self._key(uid)
            return f"{kind} {namespace}/{name}"
        return beneficiary.replace("/", " ", 1)

    def _grouped(self, select: Select) -> list[tuple[Key, list[PodUid]]]:
        """The pods by the work that they belong to, in the order of its name."""
        groups: dict[Key, list[PodUid]] = defaultdict(list)
        for uid in (*self.after.facts.pods.entries, *self._made_anew()):
            if select(uid):
                groups[self._key(uid)].append(uid)
        return sorted(groups.items())

    def _made_anew(self) -> list[PodUid]:
        return [one.again for one in self.after.evictions.values() if one.again is not None]

    def _key(self, uid: PodUid) -> Key:
        """Kind, namespace and name of the gang, else of the controller, else of the pod."""
        pod = self.after.meanings.get(uid) or self.before.meanings.get(uid)
        entry = self.after.facts.pods.entries[before_evictions(uid)]
        if pod is not None and pod.gang is not None:
            kind, namespace, name = (*pod.gang.split("/", 2), "", "")[:3]
            return (kind, namespace, name)
        return work_key(entry.object)

    def _work(self, key: Key, uids: list[PodUid], **more: object) -> Work:
        pod = self.after.meanings.get(uids[0]) or self.before.meanings.get(uids[0])
        return Work(
            *key,
            pods=len(uids),
            queue="" if pod is None else pod.queue,
            gpus=self._gpus(uids),
            submitted=not self.submitted.isdisjoint(uids),
            **more,  # type: ignore[arg-type]
        )

    def _gpus(self, uids: list[PodUid]) -> str:
        """What each of the pods asks for; members of a gang may differ."""
        pods = [self.after.meanings.get(uid) or self.before.meanings.get(uid) for uid in uids]
        asked = sorted({gpus_of(pod.shape.gpu) for pod in pods if pod is not None}, reverse=True)
        return " or ".join(text or "0" for text in asked) if len(asked) > 1 else "".join(asked)

    def _start(self, course: Course, uids: list[PodUid]) -> Start | None:
        """Where these pods start, and when the last of them does."""
        found = {uid: running for uid in uids if (running := course.start_of(uid)) is not None}
        if not found:
            return None
        last_us = max(_since(one.since_us) for one in found.values())
        nodes = Counter(str(one.node) for one in found.values())
        in_s = (last_us - course.now_us) / 1e6
        return Start(in_s, dict(sorted(nodes.items())), _ready(course, found))

    def _why(self, uids: list[PodUid]) -> str:
        waiting = [uid for uid in uids if self.after.state(uid) is State.WAITS]
        return self.after.why(waiting[0]) if waiting else ""


def _ready(course: Course, running: dict[PodUid, Running]) -> Ready | None:
    """How long the slowest of these pods takes until it is ready; None where none names data."""
    needs = {uid: course.meanings[uid].shape.relations.data for uid in running}
    reads = [uid for uid in running if needs[uid].read]
    if not reads:
        return None
    every = [course.ready_times.of(needs[uid].asks, running[uid].node, needs[uid].images) for uid in reads]
    return Ready(
        _slowest([one.image_s for one in every]),
        _slowest([one.data_s for one in every]),
        _slowest([one.load_s for one in every]),
    )


def _slowest(seconds: list[float | None]) -> float | None:
    """The longest; not known where one of them is not."""
    known = [one for one in seconds if one is not None]
    return max(known) if len(known) == len(seconds) else None


def work_key(pod: PodObject) -> Key:
    """Kind, namespace and name of the controller of a pod, or of a pod that has none."""
    metadata = pod.metadata
    controller = metadata.controller
    if controller is None:
        return ("pod", metadata.namespace, metadata.name)
    return (controller.kind.lower(), metadata.namespace, controller.name)


def gpus_of(gpu: GpuRequest) -> str:
    """What a pod asks for of GPUs: "2", "0.5", "" for none."""
    if not gpu.count:
        return ""
    if gpu.whole:
        return str(gpu.count)
    if not gpu.gpu_milli:
        return f"{gpu.count} x {gpu.memory_mib} MiB" if gpu.count > 1 else f"{gpu.memory_mib} MiB"
    part = f"{gpu.gpu_milli / WHOLE_GPU_MILLI:g}"
    return part if gpu.count == 1 else f"{gpu.count} x {part}"


def _since(since_us: int | None) -> int:
    return 0 if since_us is None else since_us


def _uses(report: tuple[QueueUse, ...]) -> dict[tuple[str, str], ResourceUse]:
    return {(str(one.queue), str(use.resource)): use for one in report for use in one.resources}


def _amount(resource: str, units: int) -> str:
    return written_amount(QuotaResource(resource), units)
