"""What queues have against work, in plain words: what has to change, and with which numbers."""

from gpufleet.engine.instruction import QueueBar, QuotaLimit, QuotaShortage, WhyBarred
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.queue import COST, CPU, GPU, GPU_MEMORY, GPU_MODEL_PREFIX, MEMORY, MIG_SLICES
from gpufleet.model.resource_names import EPHEMERAL_STORAGE, is_huge_pages
from gpufleet.model.resources import MEBIBYTE

BARS = {
    WhyBarred.UNKNOWN: "queue {queue} is not described: the work waits for it to be created",
    WhyBarred.INNER: "queue {queue} has queues below it, and work goes into those",
    WhyBarred.HELD: "queue {queue} is held, and nothing starts in it until it is opened",
    WhyBarred.DRAINING: "queue {queue} is draining, and takes nothing new in until it is opened",
    WhyBarred.STOPPED: "queue {queue} is stopped, and nothing runs in it until it is opened",
    WhyBarred.CYCLE: "queue {queue} is its own ancestor: it needs another parent, or none",
    WhyBarred.NO_PARENT: "the parent of queue {queue} is not described",
    WhyBarred.TOO_DEEP: "queue {queue} has too many queues above it",
    WhyBarred.OVER_BUDGET: "the budget of queue {queue} is spent ({budget}), and nothing new starts in it",
    WhyBarred.NOT_ADMITTED: "namespace {namespace} may not use queue {queue}: {admits}",
}
"""Why no work of a queue may start."""

LIMITS = {
    QuotaLimit.NOMINAL: "",
    QuotaLimit.LENDING: " (others keep what is idle, by their lending limits)",
    QuotaLimit.BORROWING: " that it may have with what it may borrow",
    QuotaLimit.HARD: " of its hard limit",
}


def number(amount: float) -> str:
    """A number without an end of zeros."""
    # Twelve digits show every amount that is in use, and hide what binary fractions add to them.
    return f"{amount:.12g}"


def mebibytes(amount: int) -> str:
    """Bytes as GiB, or as MiB below one."""
    if amount >= 1024 * MEBIBYTE:
        return f"{number(amount / MEBIBYTE / 1024)} GiB"
    return f"{number(amount / MEBIBYTE)} MiB"


def amount_words(resource: QuotaResource, amount: int) -> str:
    """An amount of a resource as people say it."""
    if resource == GPU or resource.startswith(GPU_MODEL_PREFIX):
        model = "" if resource == GPU else f" {resource.removeprefix(GPU_MODEL_PREFIX)}"
        return f"{number(amount / 1000)}{model} GPU{'' if amount == 1000 else 's'}"
    if resource == GPU_MEMORY:
        return f"{mebibytes(amount * MEBIBYTE)} of GPU memory"
    if resource == CPU:
        return f"{number(amount / 1000)} core{'' if amount == 1000 else 's'} of CPU"
    if resource in {MEMORY, EPHEMERAL_STORAGE} or is_huge_pages(resource):
        return f"{mebibytes(amount)} of {resource}"
    if resource == COST:
        return f"a cost of {number(amount / 1000)}"
    if resource == MIG_SLICES:
        return f"{amount} MIG compute slice{'' if amount == 1 else 's'}"
    return f"{amount} of {resource}"


def bar_words(bar: QueueBar) -> str:
    """Why no work of a queue may start."""
    return BARS[bar.why].format(
        queue=bar.queue, namespace=bar.namespace, admits=bar.admits, budget=bar.budget
    )


def shortage_words(short: QuotaShortage) -> str:
    """The limit that keeps work out."""
    used, allowed, asked = (
        amount_words(short.resource, amount) for amount in (short.used, short.allowed, short.asked)
    )
    kept = ""
    if short.reserved:
        kept = f" and keeps {amount_words(short.resource, short.reserved)} for reserved places"
    if short.limit is QuotaLimit.PROTECTED:
        return (
            f"waits for quota: it is never evicted, so it may not borrow; such work uses {used} of the "
            f"{allowed} that queue {short.queue} owns{kept}, and it needs {asked}"
        )
    if short.limit is QuotaLimit.OUTSIDE:
        return (
            f"waits outside of every queue: it names none, there is no FleetQueue {short.queue}, and queues "
            f"own what it needs ({asked}): name a queue that admits its namespace"
        )
    return (
        f"waits for quota: queue {short.queue} uses {used} of the {allowed}{LIMITS[short.limit]}{kept}, "
        f"and it needs {asked}"
    )
