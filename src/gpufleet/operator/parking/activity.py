"""Whether work does anything, judged from measurements of its pods and from its sessions. Pure.

Time is looked at in equal steps, the newest last. A step is quiet only if every signal is known there and
low: a GPU that computes nothing may wait for a processor that loads a model, prepares data or writes a
checkpoint, and that is work. A step without one of the signals is unknown. More than ``GAP_STEPS_MAX`` of
these side by side end a quiet time, and at the newest end they make the whole answer unknown.
``parking_step`` acts on the answer, and never on one that is unknown.
"""

import enum
from collections.abc import Mapping, Sequence

import msgspec

GAP_STEPS_MAX = 2
"""A scrape may be late or lost; more than this is no measurement any more."""

US_PER_S = 10**6


class Signal(enum.Enum):
    """What is measured of a pod; each value is the highest within a step."""

    GPU = "GPU use"
    """Part of the time in which a GPU of the pod computed, 0 to 1."""
    GPU_MEMORY = "GPU memory"
    """Device memory that the pod's programs use, in bytes."""
    CPU = "processor use"
    """Processors that are busy, as a number of them."""
    NETWORK = "network traffic"
    """Bytes a second that are received."""
    REQUESTS = "requests"
    """Requests that a model server answered within the step."""


QUIET_BELOW: Mapping[Signal, float] = {
    # A card at rest tells 0; a language model that answers one request tells more than this.
    Signal.GPU: 0.02,
    # A Jupyter server without a busy kernel takes a hundredth; a program that loads or saves, most of one.
    Signal.CPU: 0.1,
    # Probes and an open page of a notebook are some hundred bytes a second.
    Signal.NETWORK: 2_000.0,
    Signal.REQUESTS: 0.5,
}
"""Below its bound a signal is quiet. Memory is quiet while it does not change."""

MEMORY_CHANGE_BYTES = 16 * 2**20
"""A change of held memory by more is a program that loads, frees or computes."""

NEEDED = (Signal.GPU, Signal.GPU_MEMORY, Signal.CPU, Signal.NETWORK)
"""Without one of these a step is unknown. Requests count where a server tells them."""

SESSION_STALE_US = 15 * 60 * US_PER_S
"""A culler looks every minute; one that has not looked for this long says nothing."""


class Activity(enum.Enum):
    """What work does.

    WORKING: something happened just now. QUIET: nothing happens, for less than the rule asks for. IDLE:
    nothing has happened for as long as the rule asks for. UNKNOWN: it cannot be said.
    """

    WORKING = "Working"
    QUIET = "Quiet"
    IDLE = "Idle"
    UNKNOWN = "Unknown"


class Judgement(msgspec.Struct, frozen=True):
    """An activity, since when nothing happens (0 where something does, or nothing is known), and why."""

    activity: Activity
    quiet_since_us: int = 0
    reason: str = ""
    holds_memory: bool = False
    """Whether device memory is in use, which is lost when the work is parked."""


class Steps(msgspec.Struct, frozen=True):
    """The time that is looked at: ``count`` steps of ``step_s``, the last of which ends at ``end_s``."""

    end_s: int
    step_s: int
    count: int

    def index_of(self, at_s: int) -> int | None:
        """The step that a point speaks for; points stand at ends of steps."""
        index = self.count - 1 - round((self.end_s - at_s) / self.step_s)
        return index if 0 <= index < self.count else None

    def begins_us(self, index: int) -> int:
        """When a step begins, in microseconds since 1970."""
        return (self.end_s - (self.count - index) * self.step_s) * US_PER_S


class MeasuredPod(msgspec.Struct, frozen=True):
    """A pod with GPUs: when it started, and for each signal one value a step, None where none is known."""

    name: str
    started_us: int
    values: Mapping[Signal, Sequence[float | None]]


class Sessions(msgspec.Struct, frozen=True):
    """When a person was last seen at work, and when sessions were last looked at; 0 where neither is
    told.
    """

    last_us: int = 0
    checked_us: int = 0


NO_SESSIONS = Sessions()


def judge(
    pods: Sequence[MeasuredPod], sessions: Sessions, steps: Steps, after_us: int, now_us: int
) -> Judgement:
    """What all pods of one workload together do: it is idle only if each of them is."""
    if not pods:
        return Judgement(Activity.UNKNOWN, reason="no pod of it runs")
    if sessions.checked_us and now_us - sessions.checked_us > SESSION_STALE_US:
        return Judgement(Activity.UNKNOWN, reason="its sessions have not been looked at lately")
    found = [_judge_pod(pod, steps) for pod in pods]
    # In this order: one pod that works settles the answer, whatever is not known of the others.
    for activity in (Activity.WORKING, Activity.UNKNOWN):
        worst = next((one for one in found if one.activity is activity), None)
        if worst is not None:
            return worst
    since_us = max(sessions.last_us, *(one.quiet_since_us for one in found))
    idle = now_us - since_us >= after_us
    reason = "a person was at work" if since_us == sessions.last_us else ""
    holds = any(one.holds_memory for one in found)
    return Judgement(Activity.IDLE if idle else Activity.QUIET, since_us, reason, holds)


def _judge_pod(pod: MeasuredPod, steps: Steps) -> Judgement:
    """The quiet time of one pod, from now back to what ended it."""
    gap = 0
    first_quiet = steps.count
    for index in range(steps.count - 1, -1, -1):
        if steps.begins_us(index) < pod.started_us:
            break
        missing, busy = _missing(pod, index), _busy(pod, index)
        # A signal that shows work settles a step, also where another signal is missing.
        if busy is not None:
            if first_quiet == steps.count:
                return Judgement(Activity.WORKING, reason=f"{pod.name}: {busy.value}")
            break
        if missing is None:
            gap, first_quiet = 0, index
            continue
        gap += 1
        if gap > GAP_STEPS_MAX:
            if first_quiet == steps.count:
                reason = f"{pod.name}: {missing.value} is not known"
                return Judgement(Activity.UNKNOWN, reason=reason)
            break
    if first_quiet == steps.count:
        return Judgement(Activity.WORKING, reason=f"{pod.name} has just started")
    since_us = max(steps.begins_us(first_quiet), pod.started_us)
    return Judgement(Activity.QUIET, since_us, holds_memory=_holds(pod))


def _missing(pod: MeasuredPod, index: int) -> Signal | None:
    return next((one for one in NEEDED if _value(pod, one, index) is None), None)


def _busy(pod: MeasuredPod, index: int) -> Signal | None:
    """The first signal that shows work in a step."""
    for signal, bound in QUIET_BELOW.items():
        value = _value(pod, signal, index)
        if value is not None and value >= bound:
            return signal
    memory = _value(pod, Signal.GPU_MEMORY, index)
    before = _memory_before(pod, index)
    changed = memory is not None and before is not None and abs(memory - before) > MEMORY_CHANGE_BYTES
    return Signal.GPU_MEMORY if changed else None


def _memory_before(pod: MeasuredPod, index: int) -> float | None:
    """What was last known of its memory before a step."""
    # One step further back than a gap may be long, so that a change within a gap is seen.
    for before in range(index - 1, max(-1, index - 2 - GAP_STEPS_MAX), -1):
        value = _value(pod, Signal.GPU_MEMORY, before)
        if value is not None:
            return value
    return None


def _value(pod: MeasuredPod, signal: Signal, index: int) -> float | None:
    values = pod.values.get(signal)
    return None if values is None else values[index]


def _holds(pod: MeasuredPod) -> bool:
    known = [one for one in pod.values.get(Signal.GPU_MEMORY, ()) if one is not None]
    return bool(known) and known[-1] > MEMORY_CHANGE_BYTES
