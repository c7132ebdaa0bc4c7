"""An independent account of maximum run times: nobody ends too early, too late, or with half of its gang.

It hears what the ``ledger`` hears, and judges each step after that did.
"""

from collections.abc import Iterable

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Evict, WhyEvicted
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from tests.engine.ledger import Ledger

TRIED_AGAIN_AFTER_US = 10_000_000


class OvertimeLedger:
    """Since when pods run, and since when they could have been told to end."""

    def __init__(self) -> None:
        self.started_at_us: dict[PodUid, int] = {}
        self.ripe_since_us: dict[PodUid, int] = {}

    def hear(self, happened: event.Event, at_us: int) -> None:
        """A fact came in."""
        match happened:
            case event.PodBound(pod, _, _, None):
                self.started_at_us.setdefault(pod.uid, at_us)
            case event.PodBound(pod, _, _, int(started_at_us)):
                self.started_at_us[pod.uid] = started_at_us
            case event.PodRemoved(uid):
                self.started_at_us.pop(uid, None)

    def check(self, ledger: Ledger, said: Iterable[AnyInstruction]) -> None:
        """Who is told to end has run for long enough, and whoever has is told."""
        departures, at_us = ledger.engine.state.departures, ledger.at_us
        for one in said:
            if isinstance(one, Evict) and one.reason == WhyEvicted.OVERTIME:
                mates = together(ledger, ledger.pods[one.uid])
                assert any(self._is_over(ledger, mate) for mate in mates), f"{one.uid} ends too early"
                stay = [mate.uid for mate in mates if not departures.is_departing(mate.uid)]
                assert not stay, f"{one.uid} is told to end, and others of its gang are not"
        over = [pod for pod in running(ledger) if self._is_over(ledger, pod)]
        ripe = [
            pod.uid
            for pod in over
            if not departures.is_departing(pod.uid)
            and not any(is_refused(ledger, mate) for mate in together(ledger, pod))
        ]
        self.ripe_since_us = {uid: self.ripe_since_us.get(uid, at_us) for uid in ripe}
        for uid, since_us in self.ripe_since_us.items():
            assert at_us < since_us + TRIED_AGAIN_AFTER_US, f"{uid} has run for too long"

    def _is_over(self, ledger: Ledger, pod: Pod) -> bool:
        limit_us = shortest_limit_us(ledger, pod)
        return limit_us is not None and self.started_at_us[pod.uid] + limit_us <= ledger.at_us


def running(ledger: Ledger) -> list[Pod]:
    """Whoever has a node for sure."""
    return [ledger.pods[uid] for uid in ledger.place if uid in ledger.confirmed]


def together(ledger: Ledger, pod: Pod) -> list[Pod]:
    """The pods that end with this one."""
    if pod.gang not in ledger.gangs:
        return [pod]
    return [one for one in running(ledger) if one.gang == pod.gang]


def is_refused(ledger: Ledger, pod: Pod) -> bool:
    """True if an eviction of the pod was refused a moment ago."""
    return ledger.refused_until_us.get(pod.uid, 0) > ledger.at_us


def shortest_limit_us(ledger: Ledger, pod: Pod) -> int | None:
    """The shortest of the pod's own limit and those of the queue that it is charged to and the queues above.

    Work that runs stays charged where it is when it names a queue that it could not have started in.
    """
    gang = None if pod.gang is None else ledger.gangs.get(pod.gang)
    named = pod.queue if gang is None else gang.queue
    queue, limits = ledger.quota.charged.get(pod.uid, named), [pod.run_time_max_us]
    if queue in ledger.quota.queues:
        path = ledger.quota.plain([]).path(queue)
        limits += [ledger.quota.queues[QueueName(one)].run_time_max_us for one in path]
    return min((limit for limit in limits if limit is not None), default=None)
