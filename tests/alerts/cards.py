"""Alerts about cards: each fires for its fault alone."""

from tests.alerts.promtool import Case, Scraped, Trial, Values, rising, steady

CARD = {"node": "n1", "gpu": "0", "uuid": "GPU-a"}
POD = 'namespace="ml",pod="train-0"'
INFO = 'vendor="nvidia",model="H100"'


def of_card(name: str, labels: str = "", uuid: str = "GPU-a", gpu: int = 0) -> str:
    """A series of a card."""
    more = f",{labels}" if labels else ""
    return f'gpufleet_{name}{{node="n1",gpu="{gpu}",uuid="{uuid}"{more}}}'


def gauge(name: str, labels: str, well: float, fault: float, minutes: int = 100) -> tuple[Scraped, Scraped]:
    """A card's gauge in health, and with a fault from minute 10 on."""
    series = of_card(name, labels)
    return {series: steady(well, minutes)}, {series: steady(well, 10) + steady(fault, minutes - 10)}


def xids(of_class: str, then: Values) -> Scraped:
    """A counter of Xids that stands at 0 for ten minutes."""
    return {of_card("gpu_xid_events_total", f'class="{of_class}"'): [*steady(0, 10), *then]}


def health(reason: str) -> Scraped:
    """A card that is taken out of service in minute 10."""
    return {
        of_card("gpu_health_info", 'state="healthy",reason="none"'): steady(1, 10) + steady(None, 50),
        of_card("gpu_health_info", f'state="unhealthy",reason="{reason}"'): steady(None, 10) + steady(1, 50),
    }


WELL: Scraped = {of_card("gpu_health_info", 'state="healthy",reason="none"'): steady(1, 60)}
HELD: Scraped = {of_card("pod_gpu_held_ratio", POD): steady(1, 60)}
THREE_PODS: Scraped = {
    of_card("pod_gpu_held_ratio", f'namespace="ml",pod="p{number}"'): steady(0.3, 100) for number in range(3)
}
AGENT: Scraped = {'gpufleet_agent_info{node="n1",version="1"}': steady(1, 200)}


def throttled(reason: str, share: float) -> tuple[Scraped, Scraped]:
    """Time with lowered clocks: never, and from minute 10 on for this share of the time."""
    series = of_card("gpu_throttle_seconds_total", f'reason="{reason}"')
    return {series: steady(7, 100)}, {series: steady(7, 10) + rising(7, 60 * share, 90)}


def drivers(second: str) -> Scraped:
    """Two cards of a node; the second tells of this driver from minute 10 on."""
    return {
        of_card("gpu_info", f'{INFO},driver_version="580.95"'): steady(1, 60),
        of_card("gpu_info", f'{INFO},driver_version="580.95"', "GPU-b", 1): steady(1, 10)
        + steady(1 if second == "580.95" else None, 50),
        of_card("gpu_info", f'{INFO},driver_version="570.12"', "GPU-b", 1): steady(None, 10)
        + steady(None if second == "580.95" else 1, 50),
    }


def lanes(first: Values) -> Scraped:
    """Two cards of a model, of which the second uses 16 lanes."""
    return {
        of_card("gpu_info", INFO): steady(1, 100),
        of_card("gpu_info", INFO, "GPU-b", 1): steady(1, 100),
        of_card("gpu_pcie_link_width"): first,
        of_card("gpu_pcie_link_width", "", "GPU-b", 1): steady(16, 100),
    }


def card_trial(
    alert: str,
    severity: str,
    both: tuple[Scraped, Scraped],
    summary: str,
    quiet: int,
    fires: int,
    over: int | None,
) -> Trial:
    """A trial of card 0 of n1."""
    return Trial(alert, severity, *both, CARD, f"n1: GPU 0{summary}", quiet, fires, over)


TRIALS = [
    card_trial(
        "GPUGone",
        "critical",
        (xids("gone", steady(0, 50)), xids("gone", steady(1, 50))),
        " is lost until the machine restarts",
        9,
        12,
        11,
    ),
    card_trial(
        "GPUNeedsReset",
        "critical",
        (xids("reset", steady(0, 50)), xids("reset", steady(1, 50))),
        " needs a reset",
        9,
        12,
        11,
    ),
    Trial(
        "GPUUnhealthy",
        "warning",
        WELL,
        health("row_remap"),
        {**CARD, "reason": "row_remap"},
        "n1: GPU 0 is out of service (row_remap)",
        14,
        15,
        12,
    ),
    Trial(
        "GPUUnhealthyInUse",
        "critical",
        {**WELL, **HELD},
        {**health("xid"), **HELD},
        {**CARD, "reason": "xid"},
        "n1: GPU 0 is out of service and pods still hold it",
        14,
        15,
        12,
    ),
    Trial(
        "GPUProgramXids",
        "warning",
        {**xids("pod", steady(0, 90)), **THREE_PODS},
        {**xids("pod", rising(1, 1, 90)), **THREE_PODS},
        {"node": "n1"},
        "n1: Xids of programs, 31 within an hour",
        12,
        40,
        30,
    ),
    Trial(
        "GPUMissing",
        "critical",
        {of_card("gpu_info", INFO): steady(1, 200), **AGENT},
        {of_card("gpu_info", INFO): steady(1, 20) + steady(None, 180), **AGENT},
        {"node": "n1", "uuid": "GPU-a"},
        "n1: a GPU has disappeared",
        24,
        25,
        22,
    ),
    card_trial(
        "GPUUncorrectableECC",
        "critical",
        (
            {of_card("gpu_uncorrected_errors_total"): steady(3, 90)},
            {of_card("gpu_uncorrected_errors_total"): steady(3, 10) + steady(5, 80)},
        ),
        ": memory errors that could not be corrected",
        9,
        12,
        11,
    ),
    card_trial(
        "GPURowRemapPending",
        "warning",
        gauge("gpu_row_remap_pending", "", 0, 1),
        ": a row of memory waits for a reset to be replaced",
        69,
        70,
        40,
    ),
    card_trial(
        "GPURowRemapFailed",
        "critical",
        gauge("gpu_row_remap_failed", "", 0, 1),
        ": a row of memory could not be replaced",
        10,
        11,
        11,
    ),
    card_trial(
        "GPUThermalThrottle",
        "warning",
        throttled("hw_thermal", 0.5),
        " is slowed down by heat, 50% of the time",
        18,
        25,
        22,
    ),
    card_trial(
        "GPUThermalThrottleSevere",
        "critical",
        throttled("sw_thermal", 1.0),
        " is slowed down by heat most of the time",
        20,
        25,
        12,
    ),
    card_trial(
        "GPUPowerBrake",
        "warning",
        throttled("hw_power_brake", 0.5),
        " is braked by its power supply",
        13,
        18,
        16,
    ),
    card_trial(
        "GPUHot",
        "warning",
        (
            {
                of_card("gpu_temperature_celsius"): steady(60, 60),
                of_card("gpu_slowdown_celsius"): steady(90, 60),
            },
            {
                of_card("gpu_temperature_celsius"): steady(60, 10) + steady(86, 50),
                of_card("gpu_slowdown_celsius"): steady(90, 60),
            },
        ),
        " is at 86 °C",
        14,
        15,
        12,
    ),
    card_trial(
        "GPULinkErrors",
        "warning",
        (
            {of_card("gpu_nvlink_errors_total", 'kind="replay"'): steady(4, 60)},
            {of_card("gpu_nvlink_errors_total", 'kind="replay"'): steady(4, 10) + rising(5, 1, 50)},
        ),
        ": errors of NVLink",
        12,
        20,
        16,
    ),
    card_trial(
        "GPUPCIeReplays",
        "warning",
        (
            {of_card("gpu_pcie_replays_total"): steady(400, 90)},
            {of_card("gpu_pcie_replays_total"): steady(400, 10) + rising(402, 2, 80)},
        ),
        ": PCI Express sends packets again",
        40,
        55,
        50,
    ),
    Trial(
        "GPUPCIeNarrow",
        "warning",
        lanes(steady(16, 100)),
        lanes(steady(8, 100)),
        {**CARD, "model": "H100"},
        "n1: GPU 0 uses 8 lanes of PCI Express, others of its model more",
        29,
        31,
        20,
    ),
    Trial(
        "GPUDriversDiffer",
        "warning",
        drivers("580.95"),
        drivers("570.12"),
        {"node": "n1"},
        "n1: two versions of the driver",
        24,
        25,
        20,
    ),
    card_trial(
        "GPUReadingsOld",
        "warning",
        gauge("gpu_sample_age_seconds", "", 5, 40),
        " has not answered for 40s",
        14,
        15,
        12,
    ),
    Trial(
        "GPUCapacityLost",
        "warning",
        {
            'kube_node_status_capacity{node="n1",resource="nvidia_com_gpu"}': steady(8, 60),
            'kube_node_status_allocatable{node="n1",resource="nvidia_com_gpu"}': steady(8, 60),
        },
        {
            'kube_node_status_capacity{node="n1",resource="nvidia_com_gpu"}': steady(8, 60),
            'kube_node_status_allocatable{node="n1",resource="nvidia_com_gpu"}': steady(8, 10)
            + steady(7, 50),
        },
        {"node": "n1", "resource": "nvidia_com_gpu"},
        "n1: 1 of nvidia_com_gpu cannot be had",
        24,
        25,
        20,
    ),
]

RENUMBERED: Scraped = {
    of_card("gpu_info", INFO, "GPU-b", 1): steady(1, 20) + steady(None, 100),
    of_card("gpu_info", INFO, "GPU-b", 0): steady(None, 20) + steady(1, 100),
    **AGENT,
}
NEW_DRIVER: Scraped = {
    of_card("gpu_info", f'{INFO},driver_version="570.12"'): steady(1, 20) + steady(None, 100),
    of_card("gpu_info", f'{INFO},driver_version="580.95"'): steady(None, 20) + steady(1, 100),
    **AGENT,
}
NODE_LEFT: Scraped = {
    of_card("gpu_info", INFO): steady(1, 20) + steady(None, 100),
    'gpufleet_agent_info{node="n1"}': steady(1, 20) + steady(None, 100),
}
ONE_POD: Scraped = {of_card("pod_gpu_held_ratio", POD): steady(1, 100)}

SPECIAL = [
    Case(
        "an Xid pages for ten minutes; its card's state goes on", "GPUGone", xids("gone", steady(1, 50)), 25
    ),
    Case("a day of a program's Xids", "GPUNeedsReset", xids("pod", rising(1, 9, 50)), 40),
    Case(
        "a counter that begins with what happened before",
        "GPUGone",
        {of_card("gpu_xid_events_total", 'class="gone"'): steady(1, 50)},
        20,
    ),
    Case(
        "one program's Xids, however many", "GPUProgramXids", {**xids("pod", rising(1, 5, 80)), **ONE_POD}, 60
    ),
    Case(
        "an Xid without pods is no page",
        "GPUUnhealthy",
        health("xid"),
        20,
        ({**CARD, "reason": "xid", "severity": "warning"},),
    ),
    Case("an Xid with pods is told once", "GPUUnhealthy", {**health("xid"), **HELD}, 20),
    Case("cards are numbered anew", "GPUMissing", RENUMBERED, 40),
    Case("the driver is replaced", "GPUMissing", NEW_DRIVER, 40),
    Case("the node left", "GPUMissing", NODE_LEFT, 40),
    Case(
        "a card that is hotter than 85 °C and tells no limit",
        "GPUHot",
        {of_card("gpu_temperature_celsius"): steady(86, 30)},
        20,
        ({**CARD, "severity": "warning"},),
    ),
    Case(
        "a card at 84 °C that tells no limit",
        "GPUHot",
        {of_card("gpu_temperature_celsius"): steady(84, 30)},
        20,
    ),
    Case(
        "a card at 86 °C that may be hotter",
        "GPUHot",
        {of_card("gpu_temperature_celsius"): steady(86, 30), of_card("gpu_slowdown_celsius"): steady(95, 30)},
        20,
    ),
    Case("a power limit is no fault", "GPUThermalThrottle", throttled("power_cap", 1.0)[1], 60),
    Case(
        "fewer lanes while the card idles",
        "GPUPCIeNarrow",
        lanes([*steady(8, 20), *steady(16, 1), *steady(8, 50)]),
        60,
    ),
    Case(
        "errors of memory that are older than the agent",
        "GPUUncorrectableECC",
        {of_card("gpu_uncorrected_errors_total"): steady(None, 10) + steady(9, 50)},
        30,
    ),
    Case(
        "the counter begins anew when the card was reset",
        "GPUUncorrectableECC",
        {of_card("gpu_uncorrected_errors_total"): steady(9, 10) + steady(0, 50)},
        30,
    ),
]
