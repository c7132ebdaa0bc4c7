"""What a placed pod is: what it was bound with, shortened or weakened by what is said of it since.

The terms stand in its grant (``model.bound_terms``), so every leader reads the same from the API alone. A
longer run time, another queue or gang, ``interruptible`` taken back and the like change nothing until the pod
is placed anew; ``ignored`` says so in words.
"""

import msgspec

from gpufleet.engine.instruction import Bind
from gpufleet.kube.codec.durations import written_duration
from gpufleet.kube.codec.eviction_terms import checkpointed_at_us
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.objects.pod import Pod
from gpufleet.model import pod as model
from gpufleet.model.bound_terms import BoundGang, BoundTerms
from gpufleet.model.gang import short_gang_name

LATE_START_US = 600_000_000
"""No later than this after its binding a pod counts as started, whatever its status says."""


def terms_of(pod: Pod, meaning: model.Pod, gang: BoundGang | None, bind: Bind, at_us: int) -> BoundTerms:
    """What a pod that was decided on is bound with."""
    return BoundTerms(
        queue=meaning.queue if gang is None else gang.gang.queue,
        priority=meaning.priority if gang is None else gang.gang.priority,
        at_us=at_us,
        preemptible=meaning.preemptible,
        replaceable=meaning.replaceable,
        run_time_us=meaning.run_time_us,
        run_time_max_us=meaning.run_time_max_us,
        interruptible=meaning.interruptible,
        checkpointed_at_us=saved_at_us(checkpointed_at_us(pod), None, at_us) or None,
        promises=bind.promises,
        gang=gang,
    )


def as_bound(said: model.Pod, terms: BoundTerms) -> model.Pod:
    """A pod by its terms, where what it says now does not shorten or weaken them."""
    return msgspec.structs.replace(
        said,
        queue=terms.queue,
        priority=terms.priority,
        gang=None if terms.gang is None else terms.gang.gang.name,
        role="" if terms.gang is None else terms.gang.role,
        preemptible=terms.preemptible,
        replaceable=terms.replaceable and said.replaceable,
        run_time_us=shorter(terms.run_time_us, said.run_time_us),
        run_time_max_us=shorter(terms.run_time_max_us, said.run_time_max_us),
        interruptible=terms.interruptible or said.interruptible,
        promises=terms.promises,
    )


def shorter(one_us: int | None, other_us: int | None) -> int | None:
    """The shorter of two lengths of time, None standing for no end."""
    return min((length_us for length_us in (one_us, other_us) if length_us is not None), default=None)


def saved_at_us(said_us: int | None, known_us: int | None, now_us: int) -> int:
    """When a pod saved its work last, 0 for never. It never goes back, and a moment to come counts as now.

    A moment to come could otherwise take back what was saved before, once another scheduler leads.
    """
    return max(min(said_us or 0, now_us), known_us or 0)


def started_by_us(found_us: int | None, terms: BoundTerms | None) -> int | None:
    """When a pod began to run, as its status says and at the latest some time after it was bound."""
    if found_us is None or terms is None:
        return found_us
    return min(found_us, terms.at_us + LATE_START_US)


def ignored(said: model.Pod, words: Membership | None, terms: BoundTerms) -> tuple[str, ...]:
    """What is said of a placed pod and counts only when it is placed anew, beside what it was bound with."""
    differences = [
        _length("run time", terms.run_time_us, said.run_time_us),
        _length("maximum run time", terms.run_time_max_us, said.run_time_max_us),
    ]
    if terms.interruptible and not said.interruptible:
        differences.append("it was bound as work that may be interrupted, and no longer says so")
    if terms.preemptible != said.preemptible:
        bound, now = (_evictable(preemptible=one.preemptible) for one in (terms, said))
        differences.append(f"it was bound as work that {bound}; by its priority class it {now} now")
    queue = said.queue if words is None or words.terms.queue is None else words.terms.queue
    if queue != terms.queue:
        differences.append(f"it was bound in queue {harmless(terms.queue)}; it names {harmless(queue)} now")
    differences.append(_gang(words, terms.gang))
    return tuple(one for one in differences if one)


def ignored_note(words: tuple[str, ...]) -> str:
    """What people are told of it."""
    return f"{'; '.join(words)}. That counts when the pod is placed anew"


def _length(what: str, bound_us: int | None, said_us: int | None) -> str:
    if bound_us is None or (said_us is not None and said_us <= bound_us):
        return ""
    now = "nothing says one now" if said_us is None else f"it says {written_duration(said_us)} now"
    return f"it was bound with a {what} of {written_duration(bound_us)}; {now}"


def _evictable(*, preemptible: bool) -> str:
    return "may be evicted" if preemptible else "is never evicted"


def _gang(words: Membership | None, bound: BoundGang | None) -> str:
    if bound is None:
        if words is None:
            return ""
        return f"it was bound alone; it names gang {harmless(short_gang_name(words.gang))} now"
    name, least = bound.gang.name, bound.gang.min_members
    if words is None or words.gang != name:
        now = "none" if words is None else harmless(short_gang_name(words.gang))
        return f"it was bound in gang {harmless(short_gang_name(name))}; it names {now} now"
    if words.terms.min_members > least:
        return f"its gang was bound with {least} members or more; it asks for {words.terms.min_members} now"
    return ""
