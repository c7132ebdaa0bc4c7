"""One node, from its cordon to its return: the next step, from what is seen of it now.

Each phase looks at the node and not at what was done before, so that a step that was carried out in part is
carried out again. A node whose new driver does not work gets the one of before by itself, once.
``rollout_step`` asks this for every node that is under way.
"""

from collections.abc import Callable

import msgspec

from gpufleet.model.phrases import counted
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.operator.rollout.actions import (
    Action,
    AskCheckpoint,
    DeleteCheck,
    Evict,
    Leave,
    Move,
    SetDriver,
    StartCheck,
    WriteNode,
)
from gpufleet.operator.rollout.observed import Check, Drain, RolloutNode
from gpufleet.operator.rollout.stamp import DRAINING, NO_WAY_BACK, RolloutPhase, Stamp
from gpufleet.operator.rollout.windows import US_PER_S

replace = msgspec.structs.replace
BACKFILL_MARGIN_S = 300
"""What starts beside a drain has ended so long before the deadline: its image may have to come first."""

SETTLE_S = 10
"""A scheduler that has not seen yet that a node is closed to all may be binding a pod to it."""


class NodeStep(msgspec.Struct, frozen=True):
    """What is to be done for a node now, in order, and when to look again at the latest."""

    actions: tuple[Action, ...] = ()
    wake_at_us: int | None = None


def node_step(node: RolloutNode, settings: RolloutSettings, now_us: int) -> NodeStep:
    """The next step of a node with a stamp."""
    stamp = node.stamp
    # A node that opts out while its driver changes is left as it is: any further step would be a change.
    if stamp is None or (node.has_opted_out and stamp.phase not in DRAINING):
        return NodeStep()
    if node.has_opted_out:
        # Nothing of the node is changed yet, so that only the cordon is taken back.
        return NodeStep(given_up(node, stamp))
    return _STEPS[stamp.phase](node, stamp, settings, now_us)


def begun(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int) -> WriteNode:
    """A node begins: it is cordoned, and the stamp says whose the cordon is and until when it drains."""
    return WriteNode(
        node.name,
        replace(
            stamp,
            phase=RolloutPhase.CORDONED,
            since_us=now_us,
            began_us=now_us,
            deadline_us=now_us + settings.drain_s * US_PER_S,
            place_until_us=0 if settings.place_s is None else now_us + settings.place_s * US_PER_S,
            backfill_until_us=0,
            settles_us=0,
            # A node that was cordoned by others stays cordoned in the end.
            is_cordon_ours=stamp.is_cordon_ours or not node.is_cordoned,
        ),
        cordon=True,
    )


def turned_back(stamp: Stamp, settings: RolloutSettings, now_us: int, reason: str) -> Stamp:
    """A node gets what was there before, which the stamp must know (``Stamp.has_way_back``)."""
    return replace(
        stamp,
        target=stamp.previous,
        failed_target=stamp.target,
        is_rollback=True,
        phase=RolloutPhase.CHANGING,
        since_us=now_us,
        deadline_us=now_us + settings.change_s * US_PER_S,
        reason=reason,
    )


def given_up(node: RolloutNode, stamp: Stamp) -> tuple[Action, ...]:
    """A node that was not changed yet is as it was before it began.

    Its work stays: a move that is still asked for would take it off a node that is open again.
    """
    return (*_left(node), WriteNode(node.name, None, cordon=False if stamp.is_cordon_ours else None))


def _drain(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int) -> NodeStep:
    # Before the deadline: a node that is empty goes on, however late it is.
    if node.drain.is_over:
        if stamp.backfill_until_us:
            after = _closed(stamp, now_us)
            return NodeStep((WriteNode(node.name, after),), after.settles_us)
        if now_us < stamp.settles_us:
            return NodeStep((), stamp.settles_us)
        # The stamp goes first: a process that ends in between sets the driver in the next phase again.
        after = _in_phase(stamp, RolloutPhase.CHANGING, now_us, settings.change_s)
        return NodeStep((WriteNode(node.name, after), SetDriver(node.name, stamp.target)), after.deadline_us)
    if now_us >= stamp.deadline_us:
        return NodeStep(_not_drained(node, stamp, now_us))
    after, actions, wake_at_us = _draining(node, stamp, settings, now_us)
    must_cordon = stamp.is_cordon_ours and not node.is_cordoned
    if after != stamp or must_cordon:
        actions = (WriteNode(node.name, after, cordon=True if must_cordon else None), *actions)
    return NodeStep(actions, min(wake_at_us, stamp.deadline_us))


def _draining(
    node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int
) -> tuple[Stamp, tuple[Action, ...], int]:
    """The stamp of a node with work on it, what is asked of the work, and when that changes."""
    drain = node.drain
    actions: list[Action] = []
    wakes_us = [stamp.deadline_us]
    wakes_us += [one for one in (drain.wait_until_us, drain.saving_until_us) if one is not None]
    if drain.unasked:
        # The end stands on the pods, so that all who look after a restart wait for the same one.
        before_us = min(now_us + settings.checkpoint_s * US_PER_S, stamp.deadline_us)
        actions.append(AskCheckpoint(drain.unasked, before_us))
        wakes_us.append(before_us)
    if drain.moves:
        actions.append(Move(node.name, drain.moves))
    if drain.due:
        actions.append(Evict(node.name, drain.due))
    phase, reason = _phase(drain)
    after = _with_backfill(_stamp_in(stamp, phase, now_us, reason), drain, now_us)
    return after, tuple(actions), min(wakes_us)


def _with_backfill(stamp: Stamp, drain: Drain, now_us: int) -> Stamp:
    """The stamp of a node beside whose work others may start, or may no more.

    They may once in a drain: while work is waited for that ends by itself. What is not known changes nothing.
    """
    if drain.waits_for_ends and not (stamp.backfill_until_us or stamp.settles_us):
        until_us = stamp.deadline_us - BACKFILL_MARGIN_S * US_PER_S
        return replace(stamp, backfill_until_us=until_us) if until_us > now_us else stamp
    if drain.waits_for_ends is False and stamp.backfill_until_us:
        return _closed(stamp, now_us)
    return stamp


def _closed(stamp: Stamp, now_us: int) -> Stamp:
    """Nothing more is to start on the node, and what was about to is seen some seconds later."""
    return replace(stamp, backfill_until_us=0, settles_us=now_us + SETTLE_S * US_PER_S)


def _phase(drain: Drain) -> tuple[RolloutPhase, str]:
    """The phase of a node with work on it: what is done now goes before what is waited for."""
    if drain.stuck:
        return RolloutPhase.STUCK, drain.stuck
    if drain.due or drain.moves:
        return RolloutPhase.EVICTING, drain.kept_words
    if drain.unasked or drain.saving_until_us is not None:
        return RolloutPhase.ASKING, drain.kept_words
    return (RolloutPhase.WAITING if drain.kept else RolloutPhase.EVICTING), drain.kept_words


def _not_drained(node: RolloutNode, stamp: Stamp, now_us: int) -> tuple[Action, ...]:
    """The work of a node did not end in time. The node has its driver still, so that it goes on as it is."""
    left = len(node.drain.holders) + len(node.drain.ending)
    words = "; ".join(one for one in (node.drain.stuck, node.drain.kept_words) if one)
    reason = f"{counted(left, 'pod')} did not end in time{f': {words}' if words else ''}"
    after = replace(_stamp_in(stamp, RolloutPhase.FAILED, now_us, reason), is_cordon_ours=False)
    return (*_left(node), WriteNode(node.name, after, cordon=False if stamp.is_cordon_ours else None))


def _left(node: RolloutNode) -> tuple[Action, ...]:
    """Before a node is opened again: its work is not to move any more."""
    return (Leave(node.name, node.drain.holders),) if node.drain.holders else ()


def _change(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int) -> NodeStep:
    if not stamp.target and node.image == stamp.target and node.runs is not False and node.is_ready:
        # Nothing of a rollout is left here. No image could check the node: the one that failed may be one
        # that cannot be pulled.
        return NodeStep((_in_service(node, stamp, RolloutPhase.ROLLED_BACK, now_us),))
    if node.image == stamp.target and node.runs:
        after = _in_phase(stamp, RolloutPhase.VALIDATING, now_us, settings.validation_s)
        return NodeStep((WriteNode(node.name, after), StartCheck(node.name, stamp.target)), after.deadline_us)
    if now_us >= stamp.deadline_us:
        words = node.driver_words or "nothing is known of it"
        if not stamp.target:
            words = node.driver_words or "the node is not ready"
            reason = f"{stamp.reason}; and it did not leave in time: {words}"
            after = _stamp_in(stamp, RolloutPhase.FAILED, now_us, reason)
            return NodeStep((WriteNode(node.name, after),))
        return _failed(node, stamp, settings, now_us, f"the driver did not run in time: {words}")
    actions = () if node.image == stamp.target else (SetDriver(node.name, stamp.target),)
    return NodeStep((*_kept_cordon(node, stamp), *actions), stamp.deadline_us)


def _validate(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int) -> NodeStep:
    if node.check is Check.PASSED:
        phase = RolloutPhase.ROLLED_BACK if stamp.is_rollback else RolloutPhase.RETURNED
        return NodeStep((_in_service(node, stamp, phase, now_us), DeleteCheck(node.name)))
    if node.check is Check.FAILED:
        return _failed(node, stamp, settings, now_us, f"the check pod failed: {node.check_words}")
    if now_us >= stamp.deadline_us:
        words = f": {node.check_words}" if node.check_words else ""
        return _failed(node, stamp, settings, now_us, f"the check did not end in time{words}")
    actions = (StartCheck(node.name, stamp.target),) if node.check is Check.ABSENT else ()
    return NodeStep((*_kept_cordon(node, stamp), *actions), stamp.deadline_us)


def _in_service(node: RolloutNode, stamp: Stamp, phase: RolloutPhase, now_us: int) -> WriteNode:
    """A node takes work again: a cordon of the rollout is taken off."""
    after = replace(_stamp_in(stamp, phase, now_us, stamp.reason), is_cordon_ours=False)
    return WriteNode(node.name, after, cordon=False if stamp.is_cordon_ours else None)


def _ended(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int) -> NodeStep:
    if node.check is not Check.ABSENT:
        # The process was killed after the stamp and before the pod was deleted.
        return NodeStep((DeleteCheck(node.name),))
    is_late = stamp.phase is RolloutPhase.FAILED and stamp.is_cordon_ours and not stamp.is_validated
    if is_late and node.image == stamp.target and node.runs:
        # A driver that is built on the node may come after its deadline, and then works.
        after = _in_phase(stamp, RolloutPhase.VALIDATING, now_us, settings.validation_s)
        return NodeStep((WriteNode(node.name, after), StartCheck(node.name, stamp.target)), after.deadline_us)
    return NodeStep()


def _failed(node: RolloutNode, stamp: Stamp, settings: RolloutSettings, now_us: int, reason: str) -> NodeStep:
    """The driver of a node does not work: the one of before comes back, or a person is needed."""
    # Once only: two drivers that both do not work would replace each other for ever.
    if stamp.has_way_back and not stamp.is_rollback:
        after = turned_back(stamp, settings, now_us, reason)
        actions = (WriteNode(node.name, after), DeleteCheck(node.name), SetDriver(node.name, after.target))
        return NodeStep(actions, after.deadline_us)
    words = f"{stamp.reason}; then with the driver of before: {reason}" if stamp.is_rollback else reason
    if not stamp.has_way_back:
        words = f"{reason}; {NO_WAY_BACK}"
    after = replace(
        _stamp_in(stamp, RolloutPhase.FAILED, now_us, words),
        failed_target=stamp.failed_target or stamp.target,
        is_validated=stamp.phase is RolloutPhase.VALIDATING,
    )
    return NodeStep((WriteNode(node.name, after), DeleteCheck(node.name)))


def _in_phase(stamp: Stamp, phase: RolloutPhase, now_us: int, for_s: int) -> Stamp:
    """The stamp at the begin of a phase with a deadline of its own."""
    reason = stamp.reason if stamp.is_rollback else ""
    return replace(stamp, phase=phase, since_us=now_us, deadline_us=now_us + for_s * US_PER_S, reason=reason)


def _stamp_in(stamp: Stamp, phase: RolloutPhase, now_us: int, reason: str = "") -> Stamp:
    """The stamp in a phase that keeps the deadline; unchanged where it says so already."""
    since_us = stamp.since_us if stamp.phase is phase else now_us
    return replace(stamp, phase=phase, since_us=since_us, reason=reason)


def _kept_cordon(node: RolloutNode, stamp: Stamp) -> tuple[Action, ...]:
    """A cordon that was taken off while the driver is away is put on again."""
    is_lost = stamp.is_cordon_ours and not node.is_cordoned
    return (WriteNode(node.name, stamp, cordon=True),) if is_lost else ()


_STEPS: dict[RolloutPhase, Callable[[RolloutNode, Stamp, RolloutSettings, int], NodeStep]] = {
    **dict.fromkeys(DRAINING, _drain),
    RolloutPhase.CHANGING: _change,
    RolloutPhase.VALIDATING: _validate,
    RolloutPhase.RETURNED: _ended,
    RolloutPhase.ROLLED_BACK: _ended,
    RolloutPhase.FAILED: _ended,
}
