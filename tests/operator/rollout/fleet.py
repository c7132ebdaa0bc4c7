"""A fleet in virtual time that a rollout acts on: nodes, drivers, work and check pods, without a cluster.

It answers actions as a cluster does: an evicted pod ends after its grace period, a driver runs some time
after it was set, a check pod passes where the driver works. A kill drops all actions that come after a number
of them, which is all that the death of a process can do, as the rollout remembers nothing.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from gpufleet.model.identifiers import FleetPolicyName, NodeName, PodUid
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.operator.rollout.actions import (
    Action,
    AskCheckpoint,
    DeleteCheck,
    Evict,
    Leave,
    Move,
    PodPlace,
    SetDriver,
    StartCheck,
    WriteNode,
    WriteProgress,
)
from gpufleet.operator.rollout.observed import Check, Drain, RolloutNode
from gpufleet.operator.rollout.rollout_step import RolloutInput, RolloutStep, rollout_step
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, Stamp
from gpufleet.operator.rollout.windows import US_PER_S

POLICY = FleetPolicyName("gpus")
OLD = "example.com/driver@sha256:" + "0" * 64
NEW = "example.com/driver@sha256:" + "1" * 64
NEWER = "example.com/driver@sha256:" + "2" * 64
GRACE_S, DRIVER_S, CHECK_S = 30, 120, 20
QUICK = RolloutSettings(canaries=1, soak_s=60, drain_s=600, checkpoint_s=60, change_s=300, validation_s=60)
START_US = 1_767_225_600 * US_PER_S
"""The first of January 2026, midnight UTC: a Thursday."""


@dataclass
class Pod:
    """Work on GPUs.

    ``is_guarded``: a budget refuses to evict it. ``writes_checkpoints``: it can be asked, and was asked to
    write one until ``asked_until_us``. ``place``: a node where a plan has a place for it. ``finishes_us``: it
    ends by itself then, as is known.
    """

    uid: PodUid
    is_guarded: bool = False
    writes_checkpoints: bool = False
    ends_us: int | None = None
    asked_until_us: int | None = None
    place: NodeName | None = None
    is_asked_to_move: bool = False
    finishes_us: int | None = None


@dataclass
class Node:
    """A node; ``works`` are the images that work on it.

    ``waiting_s`` is how long waiting work runs that may start beside a drain until ``open_until_us``.
    ``late_s`` is how long work runs that a scheduler binds when that is over and not seen yet, 0 for none.
    """

    name: NodeName
    image: str = OLD
    works: frozenset[str] = frozenset({OLD, NEW, NEWER})
    pods: list[Pod] = field(default_factory=list)
    stamp: Stamp | None = None
    is_ready: bool | None = True
    is_cordoned: bool = False
    has_opted_out: bool = False
    is_skipped: bool = False
    blocker: str = ""
    driver_s: int = DRIVER_S
    runs_us: int = 0
    check_image: str = ""
    check_us: int = 0
    wait_until_us: int | None = None
    waiting_s: list[int] = field(default_factory=list)
    late_s: int = 0
    open_until_us: int = 0


class Fleet:
    """The nodes, and a history of what happened to them."""

    def __init__(self, *nodes: Node, settings: RolloutSettings = QUICK, target: str = NEW) -> None:
        self.nodes = {one.name: one for one in nodes}
        self.settings = settings
        self.target = target
        self.now_us = START_US
        self.progress: Progress | None = None
        self.evictions: Counter[PodUid] = Counter()
        self.asked: dict[PodUid, set[int]] = {}
        self.deadlines_us: dict[tuple[NodeName, str, bool, str], set[int]] = {}
        self.phases: list[tuple[NodeName, RolloutPhase]] = []
        self.changed: list[tuple[NodeName, str]] = []
        self.states: list[str] = []
        self.under_way_most = 0
        self.actions_done = 0
        self.kills = 0
        self.killed_after: int | None = None
        self.order: tuple[NodeName, ...] | None = ()
        self.backfilled = 0

    def observed(self, node: Node) -> RolloutNode:
        """What the operator sees of a node now."""
        self._backfill(node)
        for pod in list(node.pods):
            ends_us = [one for one in (pod.ends_us, pod.finishes_us) if one is not None]
            if ends_us and min(ends_us) <= self.now_us:
                node.pods.remove(pod)
        runs = node.image in node.works and node.runs_us <= self.now_us if node.image else None
        return RolloutNode(
            node.name,
            node.image,
            node.stamp,
            node.is_ready,
            node.is_cordoned,
            node.has_opted_out,
            runs,
            "" if runs else "modprobe: exec format error",
            node.blocker,
            self._drain(node),
            self._check(node),
            "nvidia-smi: no devices were found",
            node.is_skipped,
        )

    def _backfill(self, node: Node) -> None:
        """As a scheduler does: what has ended by the last known end until then may start."""
        known_us = [one.finishes_us for one in node.pods if one.finishes_us is not None]
        last_us = max((one for one in known_us if one <= node.open_until_us), default=0)
        for run_s in list(node.waiting_s):
            if self.now_us + run_s * US_PER_S <= last_us:
                node.waiting_s.remove(run_s)
                self._start(node, run_s)

    def _start(self, node: Node, run_s: int) -> None:
        self.backfilled += 1
        uid, ends_us = PodUid(f"{node.name}-beside-{self.backfilled}"), self.now_us + run_s * US_PER_S
        node.pods.append(Pod(uid, finishes_us=ends_us))

    def _drain(self, node: Node) -> Drain:
        """What a plan says of the work on a node."""
        guarded = [pod.uid for pod in node.pods if pod.is_guarded]
        holders = [pod for pod in node.pods if pod.ends_us is None]
        waits = node.wait_until_us is not None and self.now_us < node.wait_until_us
        deadline_us = 0 if node.stamp is None else node.stamp.deadline_us
        ending = [one for one in holders if one.finishes_us is not None and one.finishes_us <= deadline_us]
        free = [] if waits else [one for one in holders if one not in ending]
        unasked = [pod for pod in free if pod.writes_checkpoints and pod.asked_until_us is None]
        saving = {
            pod.uid: pod.asked_until_us
            for pod in free
            if pod.writes_checkpoints and pod.asked_until_us is not None and self.now_us < pod.asked_until_us
        }
        ready = [pod for pod in free if pod not in unasked and pod.uid not in saving]
        return Drain(
            holders=tuple(pod.uid for pod in holders),
            ending=tuple(pod.uid for pod in node.pods if pod.ends_us is not None),
            kept=tuple(pod.uid for pod in (holders if waits else ending)),
            wait_until_us=node.wait_until_us if waits else None,
            unasked=tuple(pod.uid for pod in unasked),
            saving_until_us=max(saving.values(), default=None),
            moves=tuple(PodPlace(pod.uid, pod.place) for pod in ready if pod.place is not None),
            due=tuple(pod.uid for pod in ready if pod.place is None),
            stuck=f"the budget of {guarded[0]}" if guarded and node.stamp and node.is_cordoned else "",
            waits_for_ends=bool(ending),
        )

    def _check(self, node: Node) -> Check:
        if not node.check_image:
            return Check.ABSENT
        if node.check_us > self.now_us:
            return Check.RUNNING
        return (
            Check.PASSED if node.check_image in node.works and node.runs_us <= self.now_us else Check.FAILED
        )

    def step(self) -> RolloutStep:
        """One look of the operator, and as much of its actions as it lives to carry out."""
        found = rollout_step(
            RolloutInput(
                POLICY,
                self.target,
                self.settings,
                tuple(self.observed(one) for one in self.nodes.values()),
                self.now_us,
                self.progress,
                self.order,
            )
        )
        for action in found.actions:
            if self.killed_after is not None and self.actions_done >= self.killed_after:
                self.killed_after = None
                self.kills += 1
                break
            self.actions_done += 1
            self._carry_out(action)
        self._look()
        return found

    def _carry_out(self, action: Action) -> None:
        match action:
            case WriteNode(name, stamp, cordon):
                self._write(self.nodes[name], stamp, cordon)
            case AskCheckpoint(pods, before_us):
                for uid in pods:
                    self.asked.setdefault(uid, set()).add(before_us)
                for pod in self._pods(pods):
                    pod.asked_until_us = before_us
            case Evict(_, pods):
                for pod in self._pods(pods):
                    self._end(pod)
            case Move(_, places):
                for pod in self._pods([one.pod for one in places]):
                    pod.is_asked_to_move = True
                    self._end(pod)
            case Leave(_, pods):
                for pod in self._pods(pods):
                    pod.is_asked_to_move = False
            case SetDriver(name, image):
                node = self.nodes[name]
                assert not node.pods, "a driver was taken away under work"
                assert node.is_cordoned
                node.image, node.runs_us = image, self.now_us + node.driver_s * US_PER_S
                self.changed.append((name, image))
            case StartCheck(name, image):
                node = self.nodes[name]
                if node.check_image != image:
                    node.check_image, node.check_us = image, self.now_us + CHECK_S * US_PER_S
            case DeleteCheck(name):
                self.nodes[name].check_image = ""
            case WriteProgress(progress):
                self.progress = progress
                self.states.append(progress.state.value)

    def _pods(self, uids: Collection[PodUid]) -> list[Pod]:
        return [pod for node in self.nodes.values() for pod in node.pods if pod.uid in uids]

    def _end(self, pod: Pod) -> None:
        """As the eviction API and the scheduler do, unless a budget forbids it."""
        if pod.ends_us is None and not pod.is_guarded:
            pod.ends_us = self.now_us + GRACE_S * US_PER_S
            self.evictions[pod.uid] += 1

    def _write(self, node: Node, stamp: Stamp | None, cordon: bool | None) -> None:
        node.stamp, was_open = stamp, bool(node.open_until_us)
        node.open_until_us = 0 if stamp is None else stamp.open_until_us
        if node.open_until_us:
            assert stamp is not None
            assert node.open_until_us < stamp.deadline_us
        elif was_open and node.late_s:
            self._start(node, node.late_s)
            node.late_s = 0
        if cordon is not None:
            node.is_cordoned = cordon
        if stamp is None:
            return
        if not self.phases or self.phases[-1] != (node.name, stamp.phase):
            self.phases.append((node.name, stamp.phase))
        if stamp.is_under_way:
            part = (
                stamp.phase.value
                if stamp.phase in {RolloutPhase.CHANGING, RolloutPhase.VALIDATING}
                else "Drain"
            )
            known = self.deadlines_us.setdefault((node.name, part, stamp.is_rollback, stamp.target), set())
            known.add(stamp.deadline_us)

    def _look(self) -> None:
        under_way = sum(one.stamp is not None and one.stamp.is_under_way for one in self.nodes.values())
        self.under_way_most = max(self.under_way_most, under_way)

    def run(self, for_s: int = 24 * 3600, look_s: int = 10) -> None:
        """Let time pass until nothing is left to do; raises AssertionError where that does not come."""
        end_us = self.now_us + for_s * US_PER_S
        while self.now_us < end_us:
            found = self.step()
            if not found.actions and found.wake_at_us is None:
                return
            self.now_us += (0 if _writes(found) else look_s) * US_PER_S
        raise AssertionError(f"the rollout goes on for ever: {self.progress}")

    def pass_s(self, seconds: int, look_s: int = 10) -> None:
        """Let so many seconds pass; while nothing is to be done, up to the next moment at which it may be."""
        end_us = self.now_us + seconds * US_PER_S
        while self.now_us < end_us:
            found = self.step()
            if _writes(found):
                continue
            soon_us = self.now_us + look_s * US_PER_S
            due_us = soon_us if found.actions else self._due_us(found, end_us)
            self.now_us = max(soon_us, due_us)

    def _due_us(self, found: RolloutStep, end_us: int) -> int:
        """When the next change comes by itself, or the step asked to look again; the end without any."""
        moments = [found.wake_at_us]
        for node in self.nodes.values():
            moments += [node.runs_us, node.check_us, node.wait_until_us]
            moments += [
                one for pod in node.pods for one in (pod.ends_us, pod.asked_until_us, pod.finishes_us)
            ]
        return min((one for one in moments if one is not None and one > self.now_us), default=end_us)

    def images(self) -> dict[str, str]:
        """The image of each node."""
        return {str(name): one.image for name, one in self.nodes.items()}

    def phase(self, name: str) -> RolloutPhase | None:
        """Where a node is."""
        stamp = self.nodes[NodeName(name)].stamp
        return None if stamp is None else stamp.phase


def _writes(found: RolloutStep) -> bool:
    """Whether an object was written, so that the operator looks again at once."""
    return any(isinstance(one, WriteNode | WriteProgress) for one in found.actions)


def node(name: str, *pods: Pod, **changes: object) -> Node:
    """A node with work on it."""
    made = Node(NodeName(name), pods=list(pods))
    for key, value in changes.items():
        assert hasattr(made, key)
        setattr(made, key, value)
    return made


def pod(
    name: str,
    *,
    is_guarded: bool = False,
    writes_checkpoints: bool = False,
    place: str | None = None,
    left_s: int | None = None,
) -> Pod:
    """Work with a GPU that runs on for ``left_s``; ``place`` is the node where a plan has a place for it."""
    target = None if place is None else NodeName(place)
    ends_us = None if left_s is None else START_US + left_s * US_PER_S
    return Pod(PodUid(name), is_guarded, writes_checkpoints, place=target, finishes_us=ends_us)


def with_settings(**changes: object) -> RolloutSettings:
    """Quick settings, changed."""
    return msgspec.structs.replace(QUICK, **changes)
