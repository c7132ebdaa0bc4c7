"""Causes of the queues: one that is closed or broken, and a limit that leaves too little."""

from gpufleet.engine.explanations.causes import BY_BAR, BY_LIMIT
from gpufleet.engine.explanations.queue_words import amount_words, bar_words, shortage_words
from gpufleet.engine.instruction import QueueBar, QuotaLimit, QuotaShortage, Verdict
from gpufleet.explain.answer import Finding
from gpufleet.explain.queue_position import USERS_MAX, QueuePosition
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import listed

# The limits of a quota by the names of their fields in a FleetQueue.
FIELDS = {
    QuotaLimit.NOMINAL: "nominal",
    QuotaLimit.LENDING: "lendingLimit",
    QuotaLimit.BORROWING: "borrowingLimit",
    QuotaLimit.HARD: "hardLimit",
}
NAME_ANOTHER = "name a queue that admits the namespace (label gpufleet.io/queue)"
OPEN_DEFAULT = "list the namespace in a FleetQueue, or describe the FleetQueue default for work of no queue"


def by_queue(verdict: Verdict, position: QueuePosition, problems: dict[str, str]) -> Finding | None:
    """What the pod's queue has against it, before any node; ``problems`` of queues that cannot be read."""
    if verdict.bar is not None:
        return _barred(verdict.bar, position, problems)
    return None if verdict.quota is None else _short(verdict.quota, position)


def _barred(bar: QueueBar, position: QueuePosition, problems: dict[str, str]) -> Finding:
    name, cause = harmless(bar.queue), BY_BAR[bar.why]
    known = [use.queue for use in position.uses.values() if use.is_described]
    match cause:
        case "queue-unknown" if str(bar.queue) in problems:
            why = f"queue {name} cannot be read: {problems[str(bar.queue)]}"
            return Finding(cause, why, ("correct that field of the FleetQueue",))
        case "queue-unknown":
            meant = nearest(bar.queue, known)
            ways = [f"did you mean {harmless(meant)}?"] if meant is not None else []
            ways.append(f"create the FleetQueue {name}, or correct the pod's label (gpufleet.io/queue)")
        case "queue-not-admitted":
            ways = [
                NAME_ANOTHER,
                f"add namespace {harmless(bar.namespace)} to spec.namespaces of the FleetQueue {name}",
            ]
        case "queue-inner":
            ways = [f"name one of the queues below it: {listed(position.children_of(bar.queue))}"]
        case "queue-budget":
            ways = [
                "wait until the period of the budget is over, or ask for a larger one",
                f"kubectl get fq {name} -o jsonpath='{{.status.budget}}' shows when it was checked last",
            ]
        case "queue-closed":
            ways = [f'kubectl patch fq {name} --type=merge -p \'{{"spec":{{"state":"Open"}}}}\'']
        case _:
            ways = [f"give the FleetQueue {name} another spec.parent, or none"]
    return Finding(cause, bar_words(bar), tuple(ways))


def _short(short: QuotaShortage, position: QueuePosition) -> Finding:
    if short.limit is QuotaLimit.PROTECTED:
        return _protected(short)
    if short.limit is QuotaLimit.OUTSIDE:
        return Finding(BY_LIMIT[short.limit], shortage_words(short), (NAME_ANOTHER, OPEN_DEFAULT))
    missing = amount_words(short.resource, short.missing)
    users = position.users_of(short)
    why = f"{shortage_words(short)}: {missing} too much"
    if users:
        more = f" and {len(users) - USERS_MAX} more" if len(users) > USERS_MAX else ""
        why += f"; in use by {', '.join(users[:USERS_MAX])}{more}"
    ways = []
    if short.asked > short.allowed:
        ways.append(f"ask for at most {amount_words(short.resource, short.allowed)} at once")
    else:
        ways.append(f"wait until {missing} of them come free")
    borrowers = position.borrowers_of(short)
    own = position.own_use(short.resource)
    if borrowers and own is not None and own.used < own.nominal:
        left = amount_words(short.resource, own.nominal - own.used)
        owed = f"queue {harmless(position.queue)} has {left} of its own that others use"
        ways.append(f"{owed}: {listed(map(str, borrowers))} borrow")
    field, queue = FIELDS[short.limit], harmless(short.queue)
    if short.limit is QuotaLimit.LENDING:
        ways.append("raise the lendingLimit of queues that keep what is idle")
    else:
        below = " or below it" if position.children_of(short.queue) and field == "nominal" else ""
        ways.append(f"raise {field} of {harmless(short.resource)} in the FleetQueue {queue}{below}")
    return Finding(BY_LIMIT[short.limit], why, tuple(ways))


def _protected(short: QuotaShortage) -> Finding:
    """The queue has quota enough, perhaps of others, but its class keeps the work from being evicted."""
    resource, queue = harmless(short.resource), harmless(short.queue)
    missing = amount_words(short.resource, short.missing)
    ways = [
        "use a PriorityClass whose pods may be evicted: such work may borrow",
        f"raise nominal of {resource} in the FleetQueue {queue}",
    ]
    if short.asked <= short.allowed:
        ways.insert(0, f"wait until work that is never evicted has left {missing} of it")
    return Finding(BY_LIMIT[short.limit], f"{shortage_words(short)}: {missing} too much", tuple(ways))
