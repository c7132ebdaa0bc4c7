"""Pods that are to end, and what comes of it, as values."""

import enum
from typing import Protocol

import msgspec

from gpufleet.model.pod_name import PodName


class Cause(enum.StrEnum):
    """Why an eviction does not happen.

    ``SEVERAL_BUDGETS``: more than one PodDisruptionBudget matches the pod. The eviction API never evicts it,
    so asking again does not help. ``IN_VAIN``: another pod of the same plan stays. ``NOT_NEEDED``: no work
    waits for its place any more. ``NOT_RECORDED``: the work for which it would end could not be written down.
    """

    BUDGET = "disruption-budget"
    SEVERAL_BUDGETS = "several-disruption-budgets"
    FORBIDDEN = "forbidden"
    FENCED = "fenced"
    NO_ANSWER = "no-answer"
    NOT_BEGUN = "not-begun"
    IN_VAIN = "in-vain"
    NOT_NEEDED = "not-needed"
    NOT_RECORDED = "not-recorded"


class Victim(msgspec.Struct, frozen=True):
    """A pod that is to end.

    ``reason`` is a word for metrics and the log, such as ``preempted`` or ``gang-incomplete``; ``note`` says
    it to people. ``guarded``: some disruption budget may refuse it. ``regardless``: it was let in because it
    may be ended, and no budget that came later takes that back; where the server refuses its eviction for a
    budget, it is deleted. ``deleted``: no controller makes it anew, and its owner asked for its deletion.
    """

    pod: PodName
    reason: str
    note: str = ""
    guarded: bool = True
    regardless: bool = False
    deleted: bool = False


class EvictionRefusal(msgspec.Struct, frozen=True):
    """An eviction that did not happen, the server's words, and for how long it is not asked for again."""

    victim: Victim
    cause: Cause
    words: str
    for_s: float


class Asker(Protocol):
    """The part that wants pods to end."""

    def eviction_granted(self, victim: Victim) -> None:
        """A pod was told to end."""
        ...

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays, for this reason."""
        ...


class PodsWatchedByAsker:
    """An asker that looks at the pods themselves, and asks again while they are there."""

    def eviction_granted(self, victim: Victim) -> None:
        """Nothing is to be done."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """Nothing is to be done."""


class EvictionPlan(msgspec.Struct, frozen=True):
    """Pods that end for one workload (``together``: all of them or none), or each for itself."""

    victims: tuple[Victim, ...]
    asker: Asker
    together: bool = False
