"""Under our own names: every card and every pod on it, in base units; what nobody knows is absent."""

import pytest

from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.mig.timed_driver import StepCounts
from gpufleet.devices.clock_events import ThrottleReason
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import LinkErrorKind, Remaps
from gpufleet.devices.sharing.plan import Fractions, Mode, Mps, TimeSlice
from gpufleet.mig.step_times import Step
from tests.agent.exporter.builders import (
    CUT_H100,
    Node,
    changed,
    granted_share,
    holds,
    memory,
    node_of,
    pod,
    process,
    sample,
)

H100 = "model: H100-80GB"
MIB = 1 << 20
HELD = "gpufleet_pod_gpu_held_ratio"
MEMORY_HELD = "gpufleet_pod_gpu_memory_held_bytes"
MEMORY_USED = "gpufleet_pod_gpu_memory_used_bytes"
USED = "gpufleet_pod_gpu_used_ratio"
ENERGY = "gpufleet_pod_gpu_energy_joules_total"
XID_EVENTS = "gpufleet_gpu_xid_events_total"
THROTTLED = "gpufleet_gpu_throttle_seconds_total"
NOBODYS = "gpufleet_gpu_energy_unattributed_joules_total"


def test_a_pod_with_a_whole_card() -> None:
    node = Node(node_of(H100))
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(990, memory=memory(3000), gpu_busy_pct=40, energy_mj=10_000))
    node.scrape()
    node.reads(0, sample(999, memory=memory(4000), gpu_busy_pct=80, energy_mj=17_500))
    page = node.scrape()
    on = {"pod": "train", "namespace": "team-a", "gpu": "0", "mode": "exclusive", "node": "n1"}
    assert page.value(HELD, **on) == 1
    assert page.value(MEMORY_HELD, **on) == (node.topics.gpus.value.gpus[0].usable_mib or 0) * MIB
    assert page.value(MEMORY_USED, **on) == 4000 * MIB
    assert page.value(USED, **on) == 0.8
    assert page.value(ENERGY, **on) == 7.5
    assert page.value(NOBODYS) == 0
    assert (
        page.value("gpufleet_gpu_attribution_info", memory="device", compute="device", energy="device") == 1
    )


@pytest.mark.parametrize(("mode", "mode_name"), [(TimeSlice(4), "time-slice"), (Mps(4, 20000, 25), "mps")])
def test_pods_with_replicas_of_one_card(mode: Mode, mode_name: str) -> None:
    node = Node(node_of(H100, modes={0: mode}), pod_of={1: "uid-a", 2: "uid-b"}.get)
    node.has(pod("a"), pod("b"))
    node.gave(holds("a", f"{node.card()}::0"), holds("b", f"{node.card()}::1"))
    processes = (process(1, 1000, 30), process(2, 2000, 10))
    for at_s, energy_mj in ((990, 0), (999, 100_000)):
        node.reads(0, sample(at_s, gpu_busy_pct=40, energy_mj=energy_mj), processes=processes)
        page = node.scrape()
    assert [page.value(HELD, pod=name, mode=mode_name) for name in "ab"] == [0.25, 0.25]
    assert [page.value(MEMORY_USED, pod=name) for name in "ab"] == [1000 * MIB, 2000 * MIB]
    assert [page.value(USED, pod=name) for name in "ab"] == [pytest.approx(0.3), pytest.approx(0.1)]
    # 100 J: 40 % of the time by compute, 30 and 10; of the idle 60 each holds a quarter; 30 are nobody's.
    assert [page.value(ENERGY, pod=name) for name in "ab"] == [45, 25]
    assert page.value(NOBODYS) == 30


def test_pods_with_fractions() -> None:
    node = Node(node_of(H100, modes={0: Fractions(8)}), pod_of={1: "uid-a"}.get)
    node.has(pod("a", grant=granted_share(node.card(), 300, 24_000)))
    node.gave(holds("a", "slot-1", resource="gpufleet.io/gpu-share"))
    node.reads(0, sample(gpu_busy_pct=50), processes=(process(1, 512, 50),))
    page = node.scrape()
    assert page.value(HELD, pod="a", mode="fraction") == 0.3
    assert page.value(MEMORY_HELD, pod="a") == 24_000 * MIB
    assert page.value(MEMORY_USED, pod="a") == 512 * MIB
    assert page.value(USED, pod="a") == 0.5


def test_pods_with_instances() -> None:
    node = Node(node_of(CUT_H100))
    small, _ = node.topics.gpus.value.gpus[0].facts.mig
    node.gave(holds("a", small.uuid, resource="nvidia.com/mig-1g.10gb"))
    for at_s, energy_mj in ((990, 0), (999, 70_000)):
        node.reads(0, sample(at_s, energy_mj=energy_mj), {small.uuid: sample(at_s, memory=memory(700))})
        page = node.scrape()
    on = {"pod": "a", "mode": "mig", "mig_profile": "1g.10gb", "mig_id": str(small.gpu_instance)}
    assert page.value(HELD, **on) == pytest.approx(1 / 7)
    assert page.value(MEMORY_USED, **on) == 700 * MIB
    assert page.value(ENERGY, **on) == 10
    assert page.value(NOBODYS) == 60
    assert page.value("gpufleet_gpu_attribution_info", mig_profile="1g.10gb", energy="slices") == 1


def test_without_processes_a_sharing_pods_use_is_absent_and_its_energy_nobodys() -> None:
    node = Node(node_of(H100, modes={0: TimeSlice(2)}))
    node.gave(holds("a", f"{node.card()}::0"))
    for at_s, energy_mj in ((990, 0), (999, 100_000)):
        node.reads(0, sample(at_s, gpu_busy_pct=40, memory=memory(5), energy_mj=energy_mj))
        page = node.scrape()
    assert page.value(HELD, pod="a") == 0.5
    assert all(page.absent(name) for name in (MEMORY_USED, USED, ENERGY))
    assert page.value(NOBODYS) == 100
    assert page.value("gpufleet_gpu_attribution_info", memory="none", compute="none", energy="none") == 1


def test_the_account_of_a_pod_ends_with_what_it_holds() -> None:
    node = Node(node_of(H100))
    node.gave(holds("a", node.card()))
    node.reads(0, sample(990, energy_mj=0))
    node.scrape()
    node.gave()
    node.reads(0, sample(999, energy_mj=5000))
    page = node.scrape()
    assert page.absent(ENERGY)
    assert page.value(NOBODYS) == 5


def test_a_card_in_base_units() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(gpu_busy_pct=25, memory=memory(10), power_w=123.5, gpu_celsius=44, energy_mj=2500))
    page = node.scrape()
    facts = node.topics.gpus.value.gpus[0].facts
    assert page.value("gpufleet_gpu_busy_ratio") == 0.25
    assert page.value("gpufleet_gpu_memory_bytes") == (facts.memory_mib or 0) * MIB
    assert page.value("gpufleet_gpu_memory_used_bytes") == 10 * MIB
    assert page.value("gpufleet_gpu_power_watts") == 123.5
    assert page.value("gpufleet_gpu_temperature_celsius") == 44
    assert page.value("gpufleet_gpu_energy_joules_total") == 2.5
    assert page.value("gpufleet_gpu_info", model=facts.product, vendor="NVIDIA", mode="exclusive") == 1


def test_cards_of_every_maker_are_told() -> None:
    for group in ("model: MI300X", "model: Flex-140"):
        node = Node(node_of(group))
        node.reads(0, sample(power_w=300.0))
        assert node.scrape().value("gpufleet_gpu_power_watts") == 300.0


@pytest.mark.parametrize(
    ("verdict", "reason", "healthy", "expected"),
    [
        (Verdict.HEALTHY, "", [1.0], "none"),
        (Verdict.UNHEALTHY, "Xid 79: the card fell off the bus", [0.0], "xid"),
        (Verdict.UNKNOWN, "no answer to a sample for 5 s", [], "no_answer"),
    ],
)
def test_health_with_the_kind_of_reason(
    verdict: Verdict, reason: str, healthy: list[float], expected: str
) -> None:
    node = Node(changed(node_of(H100), 0, health=verdict, reason=reason))
    page = node.scrape()
    assert [value for _, value in page.series("gpufleet_gpu_healthy")] == healthy
    assert page.value("gpufleet_gpu_health_info", state=verdict.value, reason=expected) == 1


def test_xids_are_counted_by_code() -> None:
    page = Node(changed(node_of(H100), 0, xids={94: 2, 79: 1})).scrape()
    assert page.value("gpufleet_gpu_xid_errors_total", xid="94") == 2
    assert page.value("gpufleet_gpu_xid_errors_total", xid="79") == 1
    assert Node(node_of(H100)).scrape().absent("gpufleet_gpu_xid_errors_total")


def test_each_class_of_xids_stands_at_0_before_the_first() -> None:
    """``increase`` needs two samples, so a first Xid 79 would be seen by no alert."""
    gpus = node_of(H100)
    page = Node(gpus).scrape()
    classes = ("nothing", "pod", "quiet", "reset", "gone")
    assert [page.value(XID_EVENTS, **{"class": name}) for name in classes] == [0] * 5
    # 13 and 31 are programs' faults, 79 is a card off the bus, 1234 is in no catalogue.
    page = Node(changed(gpus, 0, xids={13: 2, 31: 1, 79: 1, 1234: 4, 48: 5})).scrape()
    assert [page.value(XID_EVENTS, **{"class": name}) for name in classes] == [0, 3, 4, 5, 1]
    assert Node(node_of("model: MI300X")).scrape().absent(XID_EVENTS)


def test_slower_clocks_and_errors() -> None:
    node = Node(node_of(H100))
    node.reads(
        0,
        sample(
            throttled_ns={ThrottleReason.HW_THERMAL: 1_500_000_000, ThrottleReason.POWER_CAP: 0},
            slowdown_celsius=87,
            uncorrected_errors=3,
            remaps=Remaps(pending=True, failed=False),
            nvlink_errors={LinkErrorKind.REPLAY: 7},
            pcie_replays=9,
            pcie_width=8,
        ),
    )
    page = node.scrape()
    assert page.value(THROTTLED, reason="hw_thermal") == 1.5
    assert page.value(THROTTLED, reason="power_cap") == 0
    assert len(page.series(THROTTLED)) == 2
    assert page.value("gpufleet_gpu_slowdown_celsius") == 87
    assert page.value("gpufleet_gpu_uncorrected_errors_total") == 3
    assert page.value("gpufleet_gpu_row_remap_pending") == 1
    assert page.value("gpufleet_gpu_row_remap_failed") == 0
    assert page.value("gpufleet_gpu_nvlink_errors_total", kind="replay") == 7
    assert page.value("gpufleet_gpu_pcie_replays_total") == 9
    assert page.value("gpufleet_gpu_pcie_link_width") == 8


def test_errors_that_a_card_does_not_tell_are_absent() -> None:
    node = Node(node_of(H100))
    node.reads(0, sample(power_w=1.0))
    page = node.scrape()
    named = ("throttle", "slowdown", "uncorrected", "remap", "nvlink", "pcie")
    assert [
        name for name, _, _ in page if name.startswith("gpufleet_gpu_") and any(x in name for x in named)
    ] == []


def test_an_instance_that_is_sick_by_itself() -> None:
    gpus = node_of(CUT_H100)
    small = gpus.gpus[0].facts.mig[0]
    node = Node(changed(gpus, 0, sick_instances={small.uuid: "Xid 94: an error", "MIG-gone": "Xid 1: x"}))
    page = node.scrape()
    assert page.value("gpufleet_gpu_healthy") == 1
    assert page.value("gpufleet_gpu_health_info", mig_profile="1g.10gb", state="unhealthy", reason="xid") == 1
    assert len(page.series("gpufleet_gpu_health_info")) == 2


def test_labels_of_pods_come_along() -> None:
    node = Node(node_of(H100), ExporterOptions(pod_labels=("team",), pod_uid=True))
    node.has(pod("a", labels={"team": "vision"}))
    node.gave(holds("a", node.card()))
    assert node.scrape().value(HELD, team="vision", pod_uid="uid-a") == 1


def test_names_follow_prometheus_conventions() -> None:
    node = Node(node_of(H100))
    node.gave(holds("a", node.card()))
    node.reads(0, sample(memory=memory(1), gpu_busy_pct=1, power_w=1.0, gpu_celsius=1, energy_mj=1))
    own = [family for name, family in node.scrape().families.items() if name.startswith("gpufleet_")]
    assert len(own) > 15
    counts = (
        "gpufleet_gpu_healthy",
        "gpufleet_agent_problems",
        "gpufleet_agent_untold_gpus",
        "gpufleet_agent_lost_holders",
        # Counts of Xids; the format's parser takes the ending of a counter away.
        "gpufleet_gpu_xid_events",
    )
    units = ("_ratio", "_bytes", "_joules", "_watts", "_celsius", "_seconds", "_info", "_errors")
    assert [one.name for one in own if not one.name.endswith(units) and one.name not in counts] == []
    assert all(family.documentation for family in own)


def test_where_cards_are_cut_each_step_is_counted_with_its_time_and_elsewhere_none() -> None:
    counts = StepCounts()
    node = Node(node_of(H100), steps=counts)
    assert node.scrape().value("gpufleet_agent_mig_steps_total", step="mode") == 0
    counts.add(Step.MAKE, 0.5)
    counts.add(Step.MAKE, 1.25)
    node.exporter.draw()
    page = node.scrape()
    assert page.value("gpufleet_agent_mig_steps_total", step="make") == 2
    assert page.value("gpufleet_agent_mig_step_seconds_total", step="make") == 1.75
    assert not [name for name in Node(node_of(H100)).scrape().families if "mig_step" in name]
