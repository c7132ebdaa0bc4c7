"""What is known of one GPU: its facts, its health and that of its MIG instances, its newest readings.

No waiting and no calls here: ``vendor_monitor`` asks the driver and tells what came of it, with the
time. An event that names an instance concerns that instance alone, unless the GPU itself is gone by
it; everything else concerns the GPU, and with it all that is on it.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.agent.gpus.health_record import GpuRecord
from gpufleet.agent.state.node_state import Gpu, GpuReading
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import (
    Evidence,
    Health,
    HistoryLost,
    Missing,
    NoAnswer,
    Reading,
    Verdict,
    XidSeen,
    step,
)
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.sharing.plan import SharingPlan
from gpufleet.devices.xid import XidAction, xid
from gpufleet.model.identifiers import DeviceId

NOT_ASKED = "it was not asked yet since the agent began"


class MonitoredGpu:
    """One GPU, from its first listing on. A GPU that the driver lists no more stays, as sick.

    ``before`` is what an earlier process of this boot knew of it.
    """

    def __init__(self, facts: GpuFacts, before: GpuRecord | None = None, now_s: float = 0.0) -> None:
        self.facts = facts
        self.health = Health()
        self.instances: dict[str, Health] = {}
        self.last_xid: int | None = None
        self.xids: dict[int, int] = {}
        self.reading = GpuReading()
        self.lost = False
        self.found_again = 0
        """How often it answered after it was missing, which a driver need not count as a reset."""

        self._before = before
        self._resets_before = 0
        if before is not None:
            self._remember(before, now_s)

    def _remember(self, before: GpuRecord, now_s: float) -> None:
        """Go on with what was known; drivers' counts of resets begin anew with each process."""
        self.health = step(_not_after(before.health, now_s), NoAnswer(NOT_ASKED), now_s)
        self.instances = {uuid: _not_after(one, now_s) for uuid, one in before.instances.items()}
        self.lost = before.lost
        self._resets_before = before.health.resets

    @property
    def record(self) -> GpuRecord:
        """What a later process has to know. That a GPU gives no answer now is seen anew."""
        sample, before = self.reading.sample, self._before
        if sample is not None:
            energy_mj, uncorrected = sample.energy_mj, sample.uncorrected_errors
        else:
            energy_mj = None if before is None else before.energy_mj
            uncorrected = None if before is None else before.uncorrected_errors
        health = msgspec.structs.replace(self.health, silent="")
        # A copy of the instances: what was written must not change with what is.
        return GpuRecord(self.facts, health, dict(self.instances), self.lost, energy_mj, uncorrected)

    @property
    def uuid(self) -> DeviceId:
        """The GPU's UUID."""
        return self.facts.uuid

    @property
    def well(self) -> bool:
        """Whether nothing is against it or its instances."""
        return self.health.verdict is Verdict.HEALTHY and not self.sick_instances()

    def listed(self, facts: GpuFacts) -> None:
        """The driver lists it, with these facts; instances that are no more are forgotten."""
        self.facts = facts
        there = {one.uuid for one in facts.mig}
        self.instances = {uuid: health for uuid, health in self.instances.items() if uuid in there}

    def xid_seen(self, code: int, instance: str | None, now_s: float) -> None:
        """The driver reported an error of this GPU, or of one instance."""
        self.last_xid = code
        # Not in place: what was told before stays as it was told.
        self.xids = {**self.xids, code: self.xids.get(code, 0) + 1}
        if instance is None or xid(code).action is XidAction.GONE:
            self._step(XidSeen(code), now_s)
        else:
            health = self.instances.get(instance, Health(resets=self.health.resets))
            self.instances[instance] = step(health, XidSeen(code), now_s)

    def missing(self, now_s: float) -> None:
        """The driver does not find the GPU; nothing that was read is true any more."""
        self.lost = True
        self._step(Missing(), now_s)
        self.reading = GpuReading()

    def unremembered(self, problem: str, codes: Iterable[int], now_s: float) -> None:
        """What was known of the GPU is lost, but for these errors, which the node's report has."""
        self._step(HistoryLost(problem), now_s)
        for code in codes:
            self._step(XidSeen(code), now_s)

    def silent(self, problem: str, now_s: float, *, forget_before_s: float) -> None:
        """The GPU gave no answer; readings from before ``forget_before_s`` are too old to be shown."""
        self._step(NoAnswer(problem), now_s)
        sample = self.reading.sample
        if sample is not None and sample.at_s < forget_before_s:
            self.reading = GpuReading()

    def answered(
        self,
        sample: Sample,
        instances: dict[str, Sample],
        processes: tuple[ProcessUse, ...] | None,
        now_s: float,
    ) -> None:
        """The GPU answered with these readings."""
        reset_meanwhile = self._before is not None and _was_reset(self._before, sample)
        self.found_again += self.lost or reset_meanwhile
        self.lost, self._before = False, None
        self.reading = GpuReading(sample, instances, processes)
        resets = self._resets_before + sample.resets + self.found_again
        seen = Reading(sample.recovery, sample.remaps.failed, resets)
        self._step(seen, now_s)
        for uuid in self.instances.keys() & instances.keys():
            self.instances[uuid] = step(self.instances[uuid], seen, now_s)

    def sick_instances(self) -> dict[str, str]:
        """The instances that are out of service by themselves, with the reason."""
        found = sorted(self.instances.items())
        return {uuid: health.reason for uuid, health in found if health.verdict is not Verdict.HEALTHY}

    def as_gpu(self, plan: SharingPlan) -> Gpu:
        """What others are told of it."""
        sick = self.sick_instances()
        return Gpu(self.facts, plan, self.health.verdict, self.health.reason, self.last_xid, sick, self.xids)

    def _step(self, evidence: Evidence, now_s: float) -> None:
        self.health = step(self.health, evidence, now_s)


def _not_after(health: Health, now_s: float) -> Health:
    """Without times in the future, which a clock that began anew would make."""
    back_since_s, out_since_s = health.back_since_s, health.out_since_s
    return msgspec.structs.replace(
        health,
        last_evidence_s=min(health.last_evidence_s, now_s),
        back_since_s=None if back_since_s is None else min(back_since_s, now_s),
        out_since_s=None if out_since_s is None else min(out_since_s, now_s),
    )


def _was_reset(before: GpuRecord, sample: Sample) -> bool:
    """Whether a count went back that only grows until the GPU is reset."""
    counts = (
        (before.energy_mj, sample.energy_mj),
        (before.uncorrected_errors, sample.uncorrected_errors),
    )
    return any(then is not None and now is not None and now < then for then, now in counts)
