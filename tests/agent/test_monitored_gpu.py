"""A card that was missing and answers again is back, whichever driver it has; its Xids are counted."""

from gpufleet.agent.gpus.monitored_gpu import MonitoredGpu
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import QUIET_FIRST_S, Verdict
from gpufleet.devices.sample import Sample
from gpufleet.devices.sharing.plan import Exclusive, SharingPlan
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId


def verdict(card: MonitoredGpu) -> Verdict:
    return card.health.verdict


def test_a_card_whose_driver_counts_no_resets_comes_back_when_it_is_found_again() -> None:
    card = MonitoredGpu(
        GpuFacts(DeviceId("0000:3a:00.0-0x0bd5"), Vendor.INTEL, 0, "Data Center GPU Max 1550")
    )
    card.answered(Sample(0.0), {}, None, 0.0)
    card.missing(10.0)
    card.missing(20.0)
    assert verdict(card) is Verdict.UNHEALTHY
    card.answered(Sample(21.0), {}, None, 21.0)
    assert verdict(card) is Verdict.UNHEALTHY, "it has to be quiet first"
    card.answered(Sample(21 + QUIET_FIRST_S), {}, None, 21 + QUIET_FIRST_S)
    assert verdict(card) is Verdict.HEALTHY


def test_xids_are_counted_by_code_and_what_was_told_stays_as_it_was() -> None:
    card = MonitoredGpu(GpuFacts(DeviceId("GPU-1"), Vendor.NVIDIA, 0, "NVIDIA H100 80GB HBM3"))
    plan = SharingPlan(card.uuid, Exclusive())
    card.xid_seen(94, None, 1.0)
    before = card.as_gpu(plan)
    card.xid_seen(94, "MIG-1", 2.0)
    card.xid_seen(79, None, 3.0)
    assert before.xids == {94: 1}
    assert card.as_gpu(plan).xids == {94: 2, 79: 1}
