"""dcgm-exporter's own counters: names, types, labels and windows are its, and each count is what happened."""

import msgspec
import pytest

from gpufleet.agent.exporter.counters_file import read_counters
from gpufleet.agent.exporter.gpu_events import WINDOW_S
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.devices.clock_events import NOTHING, ClockEvent
from gpufleet.devices.health import Verdict
from tests.agent.exporter.builders import CUT_H100, NOW_S, Node, changed, holds, node_of, pod, sample

FILE = b"""\
DCGM_EXP_CLOCK_EVENTS_COUNT, gauge,   Clock events.
DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, Clock events begun.
DCGM_EXP_XID_ERRORS_COUNT,   gauge,   Xids.
DCGM_EXP_XID_ERRORS_TOTAL,   counter, All Xids.
DCGM_EXP_GPU_HEALTH_STATUS,  gauge,   Health.
"""
CLOCKS, BEGUN = "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_CLOCK_EVENTS_TOTAL"
XIDS, ALL_XIDS = "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"
HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
H100 = "model: H100-80GB"
GOLDEN = """\
# HELP DCGM_EXP_CLOCK_EVENTS_COUNT Clock events.
# TYPE DCGM_EXP_CLOCK_EVENTS_COUNT gauge
DCGM_EXP_CLOCK_EVENTS_COUNT{CARD,clock_event="power_cap",container="main",POD,window_size_in_ms="300000"} 2
DCGM_EXP_CLOCK_EVENTS_COUNT{CARD,clock_event="sw_thermal",container="main",POD,window_size_in_ms="300000"} 1
# HELP DCGM_EXP_CLOCK_EVENTS_TOTAL Clock events begun.
# TYPE DCGM_EXP_CLOCK_EVENTS_TOTAL counter
DCGM_EXP_CLOCK_EVENTS_TOTAL{CARD,clock_event="sw_thermal",container="main",POD} 1
# HELP DCGM_EXP_XID_ERRORS_COUNT Xids.
# TYPE DCGM_EXP_XID_ERRORS_COUNT gauge
DCGM_EXP_XID_ERRORS_COUNT{CARD,container="main",POD,window_size_in_ms="300000",xid="31"} 1
DCGM_EXP_XID_ERRORS_COUNT{CARD,container="main",POD,window_size_in_ms="300000",xid="79"} 2
# HELP DCGM_EXP_XID_ERRORS_TOTAL All Xids.
# TYPE DCGM_EXP_XID_ERRORS_TOTAL counter
DCGM_EXP_XID_ERRORS_TOTAL{CARD,container="main",POD,xid="31"} 1
DCGM_EXP_XID_ERRORS_TOTAL{CARD,container="main",POD,xid="79"} 2
# HELP DCGM_EXP_GPU_HEALTH_STATUS Health.
# TYPE DCGM_EXP_GPU_HEALTH_STATUS gauge
DCGM_EXP_GPU_HEALTH_STATUS{CARD,container="main",REASON,health_watch="ALL",POD} 20
""".replace("REASON", 'health_error_code="DCGM_FR_XID_ERROR"')
"""The page of a card with a pod: all labels of dcgm-exporter, a card's first, others by name."""


def a_node(*groups: str) -> Node:
    return Node(node_of(*(groups or (H100,))), ExporterOptions(counters=read_counters(FILE)))


def reads(node: Node, events: ClockEvent | None, after_s: float = 0.0) -> None:
    """The next sample, so much later."""
    node.now_s += after_s
    node.reads(0, sample(node.now_s, clock_events=events))
    node.exporter.draw()


def xids(node: Node, counted: dict[int, int]) -> None:
    """So many of each since the agent began."""
    node.topics.gpus.publish(changed(node.topics.gpus.value, 0, xids=counted))
    node.exporter.draw()


def test_the_page_is_as_dcgm_exporter_writes_it() -> None:
    node = a_node()
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    reads(node, ClockEvent.POWER_CAP)
    sick = changed(
        node.topics.gpus.value, 0, xids={79: 2, 31: 1}, health=Verdict.UNHEALTHY, reason="Xid 79: gone"
    )
    node.topics.gpus.publish(sick)
    reads(node, ClockEvent.POWER_CAP | ClockEvent.SW_THERMAL, after_s=10)
    facts = sick.gpus[0].facts
    card = (
        f'gpu="0",UUID="{facts.uuid}",pci_bus_id="{facts.pci_bus_id}",device="nvidia0",'
        f'modelName="{facts.product}",Hostname="n1"'
    )
    expected = GOLDEN.replace("CARD", card).replace("POD", 'namespace="team-a",pod="train"')
    assert node.raw().partition("# HELP gpufleet_")[0] == expected


def test_nothing_happened_is_a_series_of_0_without_its_kind() -> None:
    node = a_node()
    reads(node, NOTHING)
    page = node.scrape()
    for name, label in ((CLOCKS, "clock_event"), (XIDS, "xid")):
        ((labels, value),) = page.series(name)
        assert (value, labels["window_size_in_ms"]) == (0, "300000")
        assert label not in labels
    assert page.absent(BEGUN)
    assert page.absent(ALL_XIDS)
    ((labels, value),) = page.series(HEALTH)
    assert (value, labels["health_error_code"], labels["health_watch"]) == (0, "DCGM_FR_OK", "ALL")


def test_a_reason_that_held_from_the_first_is_in_the_window_and_has_not_begun() -> None:
    node = a_node()
    reads(node, ClockEvent.GPU_IDLE)
    reads(node, NOTHING, after_s=10)
    for _ in range(2):
        reads(node, ClockEvent.GPU_IDLE, after_s=10)
    page = node.scrape()
    assert page.value(CLOCKS, clock_event="gpu_idle") == 3
    assert page.value(BEGUN, clock_event="gpu_idle") == 1


def test_the_same_sample_counts_once_however_often_the_page_is_made() -> None:
    node = a_node()
    reads(node, ClockEvent.HW_SLOWDOWN)
    for _ in range(3):
        assert node.scrape().value(CLOCKS, clock_event="hw_slowdown") == 1


def test_what_is_older_than_the_window_leaves_it_though_nothing_else_changes() -> None:
    node = a_node()
    xids(node, {31: 1})
    node.now_s += WINDOW_S - 1
    assert [line[-11:] for line in node.raw().splitlines() if line.startswith(XIDS + "{")] == ['xid="31"} 1']
    node.now_s += 1
    lines = [line for line in node.raw().splitlines() if line.startswith(f"{XIDS}{{")]
    assert len(lines) == 1
    assert lines[0].endswith(" 0")
    assert node.scrape().value(ALL_XIDS, xid="31") == 1


def test_xids_are_counted_when_they_come() -> None:
    node = a_node()
    xids(node, {31: 1})
    node.now_s += WINDOW_S - 10
    xids(node, {31: 3})
    node.now_s += 20
    page = node.scrape()
    assert page.value(XIDS, xid="31") == 2
    assert page.value(ALL_XIDS, xid="31") == 3


@pytest.mark.parametrize(
    ("health", "reason", "expected"),
    [
        (Verdict.UNHEALTHY, "the driver does not find it any more", (20, "DCGM_FR_FALLEN_OFF_BUS")),
        (
            Verdict.UNHEALTHY,
            "a broken row of its memory cannot be replaced",
            (20, "DCGM_FR_ROW_REMAP_FAILURE"),
        ),
        (Verdict.UNHEALTHY, "something else", (20, "DCGM_FR_UNKNOWN")),
        (Verdict.UNKNOWN, "no answer to a call", None),
    ],
)
def test_health_is_the_agents_own(health: Verdict, reason: str, expected: tuple[int, str] | None) -> None:
    node = a_node()
    node.topics.gpus.publish(changed(node.topics.gpus.value, 0, health=health, reason=reason))
    told = [(value, labels["health_error_code"]) for labels, value in node.scrape().series(HEALTH)]
    assert told == ([] if expected is None else [expected])


def test_what_nobody_knows_is_absent() -> None:
    node = a_node()
    reads(node, None)
    node.topics.gpus.publish(changed(node.topics.gpus.value, 0, health=Verdict.UNKNOWN))
    page = node.scrape()
    assert [name for name in page.families if name.startswith("DCGM")] == []


def test_a_cut_card_is_counted_once() -> None:
    node = a_node(CUT_H100)
    instances = {one.uuid: sample() for one in node.topics.gpus.value.gpus[0].facts.mig}
    node.reads(0, sample(NOW_S, clock_events=ClockEvent.SYNC_BOOST), instances)
    page = node.scrape()
    for name in (CLOCKS, XIDS, HEALTH):
        ((labels, _),) = page.series(name)
        assert "GPU_I_ID" not in labels


def test_a_card_that_was_gone_is_counted_anew() -> None:
    node = a_node(H100, H100)
    xids(node, {31: 5})
    gpus = node.topics.gpus.value
    node.topics.gpus.publish(msgspec.structs.replace(gpus, gpus=gpus.gpus[1:]))
    node.exporter.draw()
    node.topics.gpus.publish(gpus)
    xids(node, {31: 1})
    assert node.scrape().value(XIDS, gpu="0", xid="31") == 1


def test_the_reasons_of_this_moment_as_bits() -> None:
    counters = read_counters(
        b"DCGM_FI_DEV_CLOCKS_EVENT_REASONS, gauge, x\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS, gauge, x\n"
    )
    node = Node(node_of(H100), ExporterOptions(counters=counters))
    reads(node, ClockEvent.POWER_CAP | ClockEvent.HW_THERMAL)
    page = node.scrape()
    assert page.value("DCGM_FI_DEV_CLOCKS_EVENT_REASONS") == 0x44
    assert page.value("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") == 0x44
