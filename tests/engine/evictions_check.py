"""Whom the engine may evict, by an account of its own."""

from collections.abc import Container, Mapping

from gpufleet.engine.instruction import Evict, WhyEvicted
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod

WITHOUT_BENEFICIARY = frozenset(
    {
        WhyEvicted.STOPPED,
        WhyEvicted.OVERTIME,
        WhyEvicted.GANG_INCOMPLETE,
        WhyEvicted.DEVICE_CONFLICT,
        WhyEvicted.GPU_MEMORY,
    }
)
"""Why work ends for nobody's sake, and so also if it is never evicted for another's."""


def check_eviction(
    one: Evict, pods: Mapping[PodUid, Pod], place: Container[PodUid], *, may_be_asked: bool
) -> None:
    """Only pods that run are evicted, none for others' sake that may not be, and none for work of less
    rank (I12).
    """
    assert one.uid in place, f"{one.uid} is evicted, and does not run"
    pod = pods[one.uid]
    if one.reason not in WITHOUT_BENEFICIARY:
        assert pod.preemptible, f"{one.uid} is evicted, and is not preemptible"
    assert not pod.leaving, f"{one.uid} is evicted, and ends anyway"
    assert may_be_asked, f"{one.uid} is asked again too soon"
    if one.reason == WhyEvicted.MOVED:
        assert pod.replaceable, f"{one.uid} is moved, and nobody makes it anew"
        assert pod.gang is None, f"{one.uid} is moved, and its gang is not"
        return
    if one.reason == WhyEvicted.INTERRUPTED:
        assert one.beneficiary is not None, f"{one.uid} ends for nobody"
        # Of a gang that is left with too few, all end.
        assert pod.interruptible or pod.gang is not None, f"{one.uid} did not say that it may be interrupted"
    asking = None if one.beneficiary is None else pods.get(PodUid(one.beneficiary))
    if asking is not None and pod.gang is None and asking.queue == pod.queue:
        assert pod.priority <= asking.priority, f"{one.uid} is evicted for work of lower priority"


def is_stand_in(uid: PodUid) -> bool:
    """True for what the engine calls the pod that a controller is to make for a moved one."""
    return uid.endswith("/moved")
