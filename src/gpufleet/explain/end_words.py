"""What is said of the end of a running pod: its latest eviction, and for which work it ends before.

``answering`` asks the engine only where there may be something to say (``may_have_to_end``).
"""

from gpufleet.cluster.facts import Facts
from gpufleet.engine.explanations.reservation_words import moment_words, nodes_words
from gpufleet.engine.instruction import Outlook, RunTimeLimit
from gpufleet.explain.reservation_causes import holder_words, until_words
from gpufleet.kube.codec.durations import written_duration
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.pod import Pod


def may_have_to_end(facts: Facts, meaning: Pod) -> bool:
    """True if the pod or any queue limits run times, or if it may be a guest of others."""
    queues = [terms.queue for terms in facts.pods.reader.queues.known.values()]
    if meaning.run_time_max_us is not None or any(one.run_time_max_us is not None for one in queues):
        return True
    if meaning.interruptible and queues:
        return True
    return meaning.run_time_us is None and any(one.learn_run_times for one in queues)


def end_notes(outlook: Outlook, now_us: int) -> list[str]:
    """What there is to say, the most certain first."""
    notes = []
    if outlook.latest_us is not None and outlook.limit is not None:
        longest = _longest(outlook.limit)
        if outlook.latest_us > now_us:
            moment = moment_words(outlook.latest_us)
            notes.append(f"it is evicted {moment} unless it has ended before: it may run for {longest}")
        else:
            notes.append(f"it has run for {longest}: it is evicted as soon as disruption budgets allow that")
    for host in outlook.guest_of:
        holder = f"{holder_words(host)} of queue {harmless(host.queue)}"
        reserved = f"holds a reservation of {nodes_words(host)}, {until_words(host)}"
        notes.append(f"it may be interrupted, and is evicted when {holder} can start, which {reserved}")
    return notes


def _longest(limit: RunTimeLimit) -> str:
    length = written_duration(limit.run_time_us)
    if limit.queue is None:
        return f"{length}, by its own word or that of another of its gang"
    return f"{length}, the runTimeMax of queue {harmless(limit.queue)}"
