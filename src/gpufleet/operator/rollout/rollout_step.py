"""All nodes of one policy: which begin, when canaries are trusted, when a rollout turns back or stops.

What the nodes say decides, and little is remembered beside it: whether the canaries have passed. A node
that is not ready, that others have cordoned, that opted out or failed is named and passed over; only a
canary is waited for, because to go on without its word is what a canary is there to prevent.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.model.identifiers import FleetPolicyName, NodeName
from gpufleet.model.phrases import counted
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.operator.rollout.actions import Action, DeleteCheck, WriteNode, WriteProgress
from gpufleet.operator.rollout.node_step import begun, given_up, node_step, turned_back
from gpufleet.operator.rollout.observed import Check, RolloutNode
from gpufleet.operator.rollout.stamp import (
    DRAINING,
    NO_WAY_BACK,
    UNDER_WAY,
    Progress,
    RolloutPhase,
    RolloutState,
    Stamp,
)
from gpufleet.operator.rollout.windows import US_PER_S, next_opening

NAMES_SHOWN_MAX = 5
"""A sentence of a status names so many nodes; the stamps of the others say the same."""


class RolloutInput(msgspec.Struct, frozen=True):
    """One policy and its nodes at one moment.

    ``target`` is the image that the policy wants. ``order`` names nodes in the order in which they are best
    drained, as the engine plans it; nodes that it does not name come after, by name. None: it is still being
    planned, and no node begins before; ``order_problem`` says why it cannot be, or "".
    """

    policy: FleetPolicyName
    target: str
    settings: RolloutSettings
    nodes: tuple[RolloutNode, ...]
    now_us: int
    progress: Progress | None = None
    order: tuple[NodeName, ...] | None = ()
    order_problem: str = ""


class RolloutStep(msgspec.Struct, frozen=True):
    """What is to be done now, in order, and when to look again if nothing changes before.

    ``able`` are nodes that could begin and ``places`` how many of them may, once it is known which are best.
    ``pending`` are all nodes that are still to be changed. ``blocked`` are those of them that may begin and
    cannot while no other node is under way: they keep the rollout from going on.
    """

    actions: tuple[Action, ...]
    progress: Progress
    wake_at_us: int | None
    able: tuple[NodeName, ...] = ()
    places: int = 0
    pending: tuple[NodeName, ...] = ()
    blocked: tuple[NodeName, ...] = ()


def rollout_step(given: RolloutInput) -> RolloutStep:
    """The next step of a rollout."""
    return _Step(given).run()


class _Step:
    """The work of one call: collects actions, at most one write for each node."""

    def __init__(self, given: RolloutInput) -> None:
        self.given = given
        self.settings = given.settings
        self.now_us = given.now_us
        self.progress = given.progress
        self.actions: list[Action] = []
        self.wakes_us: list[int] = []
        self.taken: set[NodeName] = set()
        self.able: tuple[NodeName, ...] = ()
        self.places = 0
        self.blocked: tuple[NodeName, ...] = ()
        # What each node is after the writes of this step.
        self.stamps = {
            one.name: one.stamp
            for one in given.nodes
            if one.stamp is not None and one.stamp.policy == given.policy
        }

    def run(self) -> RolloutStep:
        before = self.progress
        if before is None or before.target != self.given.target:
            first = RolloutState.CANARY if self.settings.canaries else RolloutState.ROLLING
            before = Progress(self.given.target, first, self.now_us)
        self.progress = before
        self._retarget()
        if before.state is RolloutState.ROLLING_BACK or self._failed_canary() is not None:
            self._roll_canaries_back()
        self._step_nodes()
        after = self._next(before)
        if after.state in {RolloutState.CANARY, RolloutState.ROLLING}:
            self._begin(after)
        if after != self.given.progress:
            self.actions.append(WriteProgress(after))
        pending = tuple(node.name for node in self._pending())
        wake_at_us = min(self.wakes_us, default=None)
        return RolloutStep(
            tuple(self.actions), after, wake_at_us, self.able, self.places, pending, self.blocked
        )

    def _act(self, node: RolloutNode, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, WriteNode):
                self._write(node, action)
            else:
                self.actions.append(action)

    def _write(self, node: RolloutNode, write: WriteNode) -> None:
        self.actions.append(write)
        self.taken.add(node.name)
        if write.stamp is None:
            self.stamps.pop(node.name, None)
        else:
            self.stamps[node.name] = write.stamp

    def _own(self) -> Iterator[tuple[RolloutNode, Stamp]]:
        """The nodes with a stamp of this policy, as it is now."""
        for node in self.given.nodes:
            stamp = self.stamps.get(node.name)
            if stamp is not None:
                yield node, stamp

    def _retarget(self) -> None:
        """The policy wants another image while nodes are under way: these go on to the new one."""
        for node, stamp in list(self._own()):
            target = self.given.target
            if (
                stamp.target == target
                or stamp.is_rollback
                or stamp.phase not in UNDER_WAY
                or node.has_opted_out
            ):
                continue
            after = msgspec.structs.replace(stamp, target=target)
            # A node that is still being emptied goes on as it is: its driver was not touched yet.
            if stamp.phase not in DRAINING:
                after = msgspec.structs.replace(
                    after,
                    phase=RolloutPhase.CHANGING,
                    since_us=self.now_us,
                    deadline_us=self.now_us + self.settings.change_s * US_PER_S,
                )
                # The check was of the image of before.
                if node.check is not Check.ABSENT:
                    self.actions.append(DeleteCheck(node.name))
            self._write(node, WriteNode(node.name, after))

    def _canaries(self) -> Iterator[tuple[RolloutNode, Stamp]]:
        for node, stamp in self._own():
            if stamp.is_canary and self.given.target in {stamp.target, stamp.failed_target}:
                yield node, stamp

    def _failed_canary(self) -> RolloutNode | None:
        """A canary on which the image does not work; later, one whose driver ended while it was watched."""
        for node, stamp in self._canaries():
            if stamp.has_failed(self.given.target):
                return node
            is_watched = self.progress is not None and self.progress.state is RolloutState.SOAKING
            if is_watched and stamp.phase is RolloutPhase.RETURNED and node.runs is False:
                return node
        return None

    def _roll_canaries_back(self) -> None:
        """Every canary gets the driver of before; one that was not changed yet is let go."""
        for node, stamp in list(self._canaries()):
            if stamp.has_failed(self.given.target) or node.has_opted_out or node.name in self.taken:
                continue
            if stamp.phase in DRAINING:
                self._act(node, given_up(node, stamp))
            elif not stamp.has_way_back:
                continue
            elif stamp.phase in UNDER_WAY:
                words = "another canary failed"
                self._write(node, WriteNode(node.name, turned_back(stamp, self.settings, self.now_us, words)))
            elif stamp.phase is RolloutPhase.RETURNED:
                # Work may run here by now, so that the way back begins with a drain like the way there.
                words = node.driver_words if node.runs is False else "another canary failed"
                back = turned_back(stamp, self.settings, self.now_us, words)
                self._write(node, begun(node, back, self.settings, self.now_us))

    def _step_nodes(self) -> None:
        for node, _ in list(self._own()):
            if node.name in self.taken:
                # It was written in this step, which has one write for each node, so the next one comes at
                # once.
                self.wakes_us.append(self.now_us)
                continue
            found = node_step(node, self.settings, self.now_us)
            if found.wake_at_us is not None:
                self.wakes_us.append(found.wake_at_us)
            self._act(node, found.actions)

    def _next(self, before: Progress) -> Progress:
        """The state after what the nodes say now."""
        failed = self._failed_canary()
        # A person decides how it goes on: only another image in the policy begins anew.
        if before.state is RolloutState.STOPPED:
            return before
        if before.state is RolloutState.ROLLING_BACK or (
            failed is not None and before.state in {RolloutState.CANARY, RolloutState.SOAKING}
        ):
            return self._rolling_back(before)
        if before.state is RolloutState.CANARY:
            return self._after_canaries(before)
        if before.state is RolloutState.SOAKING:
            return self._after_soak(before)
        return self._rolling(before)

    def _rolling_back(self, before: Progress) -> Progress:
        words = self._canary_words() or before.reason or "a canary failed"
        if any(stamp.phase in UNDER_WAY for _, stamp in self._own()):
            return self._in(before, RolloutState.ROLLING_BACK, words)
        return self._in(before, RolloutState.STOPPED, f"{words}; another image in the policy begins anew")

    def _canary_words(self) -> str:
        said = [
            f"canary {node.name}: {stamp.reason or node.driver_words or 'its driver does not run'}"
            for node, stamp in self._canaries()
            if stamp.failed_target or node.runs is False
        ]
        # These would be taken for nodes that are turned back.
        said += [
            f"canary {node.name} keeps the image: {NO_WAY_BACK}"
            for node, stamp in self._canaries()
            if not (stamp.has_way_back or stamp.failed_target or node.runs is False)
        ]
        return "; ".join(said[:NAMES_SHOWN_MAX])

    def _after_canaries(self, before: Progress) -> Progress:
        canaries = [stamp for _, stamp in self._canaries()]
        returned = sum(stamp.phase is RolloutPhase.RETURNED for stamp in canaries)
        if any(stamp.phase in UNDER_WAY for stamp in canaries):
            return self._in(before, RolloutState.CANARY)
        # A policy may select fewer nodes than it asks for as canaries.
        if returned >= self.settings.canaries or (returned and not self._pending()):
            self.wakes_us.append(self.now_us + self.settings.soak_s * US_PER_S)
            return self._in(before, RolloutState.SOAKING)
        if not self._pending():
            return self._in(before, RolloutState.DONE, self._left_words())
        return self._in(before, RolloutState.CANARY, self._left_words())

    def _after_soak(self, before: Progress) -> Progress:
        end_us = before.since_us + self.settings.soak_s * US_PER_S
        if self.now_us < end_us:
            self.wakes_us.append(end_us)
            return before
        unsure = [
            node.name for node, stamp in self._canaries() if node.runs is None and not node.has_opted_out
        ]
        # What is not known never counts as well, so the watching goes on after its time.
        if unsure:
            words = f"nothing is known of the driver of canary {', '.join(unsure[:NAMES_SHOWN_MAX])}"
            return self._in(before, RolloutState.SOAKING, words)
        return self._rolling(before)

    def _rolling(self, before: Progress) -> Progress:
        failed = [node.name for node, stamp in self._own() if stamp.has_failed(self.given.target)]
        most = self.settings.failures_most.of(len(self.given.nodes))
        if len(failed) > most:
            names = ", ".join(failed[:NAMES_SHOWN_MAX])
            words = f"{counted(len(failed), 'node')} failed and the policy allows {most}: {names}"
            return self._in(before, RolloutState.STOPPED, words)
        if self._pending() or any(stamp.phase in UNDER_WAY for _, stamp in self._own()):
            return self._in(before, RolloutState.ROLLING, self._left_words())
        return self._in(before, RolloutState.DONE, self._left_words())

    def _in(self, before: Progress, state: RolloutState, reason: str = "") -> Progress:
        since_us = before.since_us if before.state is state else self.now_us
        return Progress(self.given.target, state, since_us, reason)

    def _pending(self) -> list[RolloutNode]:
        """The nodes that do not have the image yet and are to get it, whether they can begin now or not."""
        return [node for node in self.given.nodes if self._is_pending(node)]

    def _is_pending(self, node: RolloutNode) -> bool:
        if node.has_opted_out or node.is_skipped or node.image == self.given.target:
            return False
        stamp = node.stamp
        if stamp is None or node.name not in self.stamps:
            # A stamp of another policy ends before this one begins; one that was just taken off waits a step.
            return stamp is None
        current = self.stamps[node.name]
        if current.phase in UNDER_WAY or current.has_failed(self.given.target):
            return False
        is_tried = current.phase is RolloutPhase.FAILED and current.target == self.given.target
        return not is_tried

    def _obstacle(self, node: RolloutNode) -> str:
        """Why a node cannot begin now, or ""."""
        if node.is_ready is not True:
            return "not ready"
        if node.is_cordoned and not _is_cordoned_by_us(node):
            return "cordoned by others"
        return node.blocker

    def _left_words(self) -> str:
        """The nodes that are passed over, and why."""
        said = [f"{node.name}: {obstacle}" for node in self._pending() if (obstacle := self._obstacle(node))]
        said += [
            f"{node.name}: {stamp.reason}"
            for node, stamp in self._own()
            if stamp.phase is RolloutPhase.FAILED or stamp.has_failed(self.given.target)
        ]
        if self.given.order_problem:
            said.insert(0, self.given.order_problem)
        more = len(said) - NAMES_SHOWN_MAX
        return "; ".join(said[:NAMES_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")

    def _begin(self, after: Progress) -> None:
        """The next nodes begin, as many as there are places for."""
        if self.settings.is_paused:
            return
        opening_us = next_opening(self.settings.windows, self.now_us)
        if opening_us is not None:
            self.wakes_us.append(opening_us)
            return
        is_canary = after.state is RolloutState.CANARY
        places = self._places(is_canary=is_canary)
        if self.given.order is None and places:
            self.able, self.places = tuple(node.name for node in self._ordered(self._pending())), places
            if self.given.order_problem or not self.able:
                self.blocked = self._waiting()
            return
        for node in self._ordered(self._pending())[:places]:
            stamp = Stamp(
                self.given.policy,
                self.given.target,
                _way_back(node),
                RolloutPhase.CORDONED,
                self.now_us,
                self.now_us,
                is_canary=is_canary,
                is_cordon_ours=_is_cordoned_by_us(node),
            )
            write = begun(node, stamp, self.settings, self.now_us)
            self._write(node, write)
            # The drain of the node begins with the next step, which is due at once.
            self.wakes_us.append(self.now_us)
        self.blocked = self._waiting()

    def _waiting(self) -> tuple[NodeName, ...]:
        """The nodes that are left, where no node is under way that could make a place for them."""
        if any(stamp.phase in UNDER_WAY for _, stamp in self._own()):
            return ()
        return tuple(node.name for node in self._pending())

    def _places(self, *, is_canary: bool) -> int:
        under_way = sum(stamp.phase in UNDER_WAY for _, stamp in self._own())
        most = self.settings.nodes_at_once.of(len(self.given.nodes))
        if is_canary:
            returned = sum(stamp.phase is RolloutPhase.RETURNED for _, stamp in self._canaries())
            most = self.settings.canaries - returned
        return max(0, most - under_way)

    def _ordered(self, nodes: Sequence[RolloutNode]) -> list[RolloutNode]:
        place = {name: number for number, name in enumerate(self.given.order or ())}
        able = [node for node in nodes if not self._obstacle(node) and node.name not in self.taken]
        return sorted(able, key=lambda node: (place.get(node.name, len(place)), node.name))


def _is_cordoned_by_us(node: RolloutNode) -> bool:
    """Whether an image failed on the node before, which has kept its cordon since."""
    return node.is_cordoned and node.stamp is not None and node.stamp.is_cordon_ours


def _way_back(node: RolloutNode) -> str:
    """What the node had before that may come back: not an image that does not work here."""
    has_failed = node.stamp is not None and node.stamp.has_failed(node.image)
    return "" if has_failed else node.image
