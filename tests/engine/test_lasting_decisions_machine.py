"""Kubelets turn pods away and pods do what they may not, in any order with all else that may happen."""

# ruff: noqa: D102 - a rule's name is its sentence, as a test's is.

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from gpufleet.engine import event
from gpufleet.engine.instruction import Evict, WhyEvicted
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.violation import AnyViolation, DeviceConflict, MemoryExceeded
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import SECOND_US
from tests.engine.overtime_ledger import is_refused, running
from tests.engine.test_engine_machine import NODES, EngineMachine

ALLOWED_US = {WhyEvicted.DEVICE_CONFLICT: 10 * SECOND_US, WhyEvicted.GPU_MEMORY: 60 * SECOND_US}
LATER_S = st.sampled_from((1, 9, 10, 45, 55, 60, 300))
"""Times before, at and after the ends of what counts for a while."""

Watched = tuple[WhyEvicted, PodUid]


class LastingDecisionsMachine(EngineMachine):
    """The machine of the engine, with facts that count for a while; all its checks hold too."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[Watched, tuple[int, AnyViolation]] = {}

    def happen(self, *events: event.Event) -> None:
        for happened in events:
            self.ledger.distrust.hear(happened, self.at_us)
            self.hear(happened)
        super().happen(*events)
        for one in self.said[-1]:
            if isinstance(one, Evict) and one.reason in ALLOWED_US:
                why = WhyEvicted(one.reason)
                since_us, violation = self.wrong[why, one.uid]
                assert since_us + ALLOWED_US[why] <= self.at_us, f"{one.uid} ends too early"
                assert ends(violation), f"{one.uid} is to stay"
        departures = self.engine.state.departures
        for pod in running(self.ledger):
            for why, allowed_us in ALLOWED_US.items():
                known = self.wrong.get((why, pod.uid))
                is_due = known is not None and ends(known[1]) and known[0] + allowed_us <= self.at_us
                if is_due and not is_refused(self.ledger, pod):
                    assert departures.is_departing(pod.uid), f"{pod.uid} goes on"

    def hear(self, happened: event.Event) -> None:
        match happened:
            case event.ViolationFound(violation):
                known = self.wrong.get(watched(violation))
                self.wrong[watched(violation)] = (self.at_us if known is None else known[0], violation)
            case event.ViolationEnded(violation):
                self.wrong.pop(watched(violation), None)
            case event.PodRemoved(uid):
                for why in ALLOWED_US:
                    self.wrong.pop((why, uid), None)

    @rule(name=st.sampled_from(NODES), count=st.sampled_from((1, 3, 3)), later_s=LATER_S)
    def a_kubelet_rejects_pods(self, name: str, count: int, later_s: int) -> None:
        rejected = event.KubeletRejected(NodeName(name), PodUid("gone"), "OutOfcpu")
        self.happen(*[rejected] * count)
        self.time_passes(later_s)

    @rule(
        index=st.integers(0, 400),
        may_be_ended=st.sampled_from((True, True, False)),
        number=st.integers(0, 3),
        later_s=LATER_S,
    )
    def a_pod_has_a_device_of_others(self, index: int, may_be_ended: bool, number: int, later_s: int) -> None:
        device = DeviceId(f"n0/{number}")
        conflict = DeviceConflict(self.running(index), device, ("default/other",), may_be_ended)
        self.happen(event.ViolationFound(conflict))
        self.time_passes(later_s)

    @rule(
        index=st.integers(0, 400),
        may_be_ended=st.sampled_from((True, True, False)),
        ends=st.sampled_from((True, True, False)),
        later_s=LATER_S,
    )
    def a_pod_uses_more_memory_than_its_share(
        self, index: int, may_be_ended: bool, ends: bool, later_s: int
    ) -> None:
        exceeded = MemoryExceeded(self.running(index), DeviceId("n0/0"), 1, 2, may_be_ended, ends)
        self.happen(event.ViolationFound(exceeded))
        self.time_passes(later_s)

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=3))
    def binds_refused(self, indexes: list[int]) -> None:
        uids = [uid for uid in map(self.running, indexes) if uid in self.ledger.pods]
        # A pod that was told to end before it has a node is removed; it never waits again.
        self.happen(*(event.BindRefused(uid) for uid in uids if not self.ledger.pods[uid].leaving))

    @rule(index=st.integers(0, 400))
    def what_was_wrong_is_over(self, index: int) -> None:
        found = [violation for _, violation in self.wrong.values()]
        if found:
            self.happen(event.ViolationEnded(found[index % len(found)]))


def watched(violation: AnyViolation) -> Watched:
    """What a violation is about."""
    if isinstance(violation, DeviceConflict):
        return WhyEvicted.DEVICE_CONFLICT, violation.pod
    assert isinstance(violation, MemoryExceeded)
    return WhyEvicted.GPU_MEMORY, violation.pod


def ends(violation: AnyViolation) -> bool:
    """True if the pod is to end for it."""
    if isinstance(violation, MemoryExceeded):
        return violation.ends and violation.may_be_ended
    return isinstance(violation, DeviceConflict) and violation.may_be_ended


TestLastingDecisionsMachine = LastingDecisionsMachine.TestCase
TestLastingDecisionsMachine.settings = settings(max_examples=60 * EFFORT, stateful_step_count=50)
