"""What is known of one GPU: its facts, its health and that of its MIG instances, its newest readings.

No waiting and no calls here: ``vendor_watch`` asks the driver and tells what came of it, with the
time. An event that names an instance concerns that instance alone, unless the card itself is gone by
it; everything else concerns the card, and with it all that is on it.
"""

from gpufleet.agent.known import Gpu, GpuReading
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import Evidence, Health, Missing, NoAnswer, Reading, Verdict, XidSeen, step
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.devices.sharing.plan import SharingPlan
from gpufleet.devices.xid import XidAction, xid
from gpufleet.model.identifiers import DeviceId


class Card:
    """One GPU, from its first listing on. A card that the driver lists no more stays, as sick."""

    def __init__(self, facts: GpuFacts) -> None:
        self.facts = facts
        self.health = Health()
        self.instances: dict[str, Health] = {}
        self.last_xid: int | None = None
        self.xids: dict[int, int] = {}
        self.reading = GpuReading()
        self.lost = False
        self.found_again = 0
        """How often it answered after it was missing, which a driver need not count as a reset."""

    @property
    def uuid(self) -> DeviceId:
        """Its UUID."""
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
        """The driver reported an error of this card, or of one instance."""
        self.last_xid = code
        # Not in place: what was told before stays as it was told.
        self.xids = {**self.xids, code: self.xids.get(code, 0) + 1}
        if instance is None or xid(code).action is XidAction.GONE:
            self._step(XidSeen(code), now_s)
        else:
            self.instances[instance] = step(self.instances.get(instance, Health()), XidSeen(code), now_s)

    def missing(self, now_s: float) -> None:
        """The driver does not find it; nothing that was read is true any more."""
        self.lost = True
        self._step(Missing(), now_s)
        self.reading = GpuReading()

    def silent(self, problem: str, now_s: float, *, forget_before_s: float) -> None:
        """It gave no answer; readings from before ``forget_before_s`` are too old to be shown."""
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
        """It answered with these readings."""
        self.found_again += self.lost
        self.lost = False
        self.reading = GpuReading(sample, instances, processes)
        seen = Reading(sample.recovery, sample.remaps.failed, sample.resets + self.found_again)
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
