"""A day on which much happens and nothing is wrong: no alert but the heartbeat and remarks.

Programs fail with Xids, computing pauses, engines take all memory at their start, the leader changes, the
agents are rolled out, a node leaves and one comes, a driver is replaced, a row of memory waits for its reset
for less than an hour, queues wait for their turn, and a few Bindings fail.
"""

from collections.abc import Callable
from pathlib import Path

from tests.alerts.promtool import Values, all_alerts, said_of_minutes

DAY = 24 * 60
NODES = ("n0", "n1", "n2", "n3", "n4")
LEFT_AT, CAME_AT = 900, 1000
"""n3 leaves and n4 comes."""
ROLLED_OUT_AT = {"n0": 600, "n1": 604, "n2": 608, "n3": 612}
"""When each node's agent was replaced; a scrape is missed."""
DRIVER_AT = 1100
"""For four minutes n2's agent finds no cards."""
FAILOVER_AT = 300
"""The leader is gone, and its stand-by leads two minutes later."""
CARD_BYTES = 80_000_000_000
MINUTE_S = 60

At = Callable[[int], float]


def there(node: str, minute: int) -> bool:
    """Whether the node is part of the cluster."""
    return minute < LEFT_AT if node == "n3" else minute >= CAME_AT if node == "n4" else True


def scraped(node: str, minute: int, *, cards: bool = True) -> bool:
    """Whether the node's agent was scraped, and told of cards where these are asked for."""
    if node == "n4" and minute < CAME_AT + 3:
        return False
    if cards and node == "n2" and DRIVER_AT <= minute < DRIVER_AT + 4:
        return False
    return there(node, minute) and ROLLED_OUT_AT.get(node) != minute


def process(node: str, minute: int) -> str:
    """The address of the agent's pod; a new one after the roll-out."""
    return f"{node}-{int(minute > ROLLED_OUT_AT.get(node, -1))}:9400"


def since_start(node: str, minute: int) -> int:
    """Minutes since the agent's process began."""
    began = ROLLED_OUT_AT.get(node, -1)
    return minute - began - 1 if minute > began >= 0 else minute


def of_agent(node: str, name: str, labels: str, at: At, *, cards: bool = True) -> dict[str, Values]:
    """A series of a node's agent, for each of its processes."""
    found: dict[str, Values] = {}
    for address in dict.fromkeys(process(node, minute) for minute in range(DAY)):
        values = [
            at(minute) if process(node, minute) == address and scraped(node, minute, cards=cards) else None
            for minute in range(DAY)
        ]
        inner = ",".join(part for part in (f'node="{node}"', labels, f'instance="{address}"') if part)
        found[f"gpufleet_{name}{{{inner}}}"] = values
    return found


def agents() -> dict[str, Values]:
    """All agents and their cards."""
    found: dict[str, Values] = {}
    for node in NODES:
        found |= of_agent(node, "agent_info", 'version="1"', lambda _: 1, cards=False)
        for name in ("agent_problems", "agent_untold_gpus", "agent_lost_holders"):
            found |= of_agent(node, name, "", lambda _: 0, cards=False)
        for gpu in range(2):
            found |= card(node, gpu)
    return found


def card(node: str, gpu: int) -> dict[str, Values]:
    """A card on which a training (0) or an engine for inference (1) runs."""
    its = f'gpu="{gpu}",uuid="GPU-{node}-{gpu}"'
    holder = f'{its},namespace="ml",pod="{node}-{gpu}"'

    def computes(minute: int) -> float:
        if gpu == 0:
            return 0.02 if minute % 120 < 20 else 0.95
        return 0.01 if minute < 180 else 0.4

    def memory(minute: int) -> float:
        return 0.98 * CARD_BYTES if gpu else 0.5 * CARD_BYTES + minute % 60 * 1e8

    def driver(minute: int) -> str:
        return "580.95" if node == "n2" and minute >= DRIVER_AT else "570.12"

    found: dict[str, Values] = {}
    for version in ("570.12", "580.95"):
        told = of_agent(
            node, "gpu_info", f'{its},vendor="NVIDIA",model="H100",driver_version="{version}"', lambda _: 1
        )
        found |= {
            series: [value if driver(minute) == version else None for minute, value in enumerate(values)]
            for series, values in told.items()
        }
    for name, labels, at in (
        ("gpu_healthy", its, lambda _: 1),
        ("gpu_health_info", f'{its},state="healthy",reason="none"', lambda _: 1),
        ("gpu_xid_events_total", f'{its},class="pod"', lambda minute: since_start(node, minute) // 20),
        ("gpu_xid_events_total", f'{its},class="nothing"', lambda minute: since_start(node, minute) // 7),
        ("gpu_xid_events_total", f'{its},class="reset"', lambda _: 0),
        ("gpu_xid_events_total", f'{its},class="gone"', lambda _: 0),
        ("gpu_throttle_seconds_total", f'{its},reason="power_cap"', lambda minute: 55.0 * minute),
        ("gpu_throttle_seconds_total", f'{its},reason="hw_thermal"', lambda minute: 2.0 * minute),
        ("gpu_throttle_seconds_total", f'{its},reason="hw_power_brake"', lambda _: 3),
        ("gpu_temperature_celsius", its, lambda minute: 86 if computes(minute) > 0.9 else 45),
        ("gpu_slowdown_celsius", its, lambda _: 92),
        ("gpu_uncorrected_errors_total", its, lambda _: 4),
        ("gpu_row_remap_pending", its, lambda minute: int(node == "n1" and 400 <= minute < 440)),
        ("gpu_row_remap_failed", its, lambda _: 0),
        ("gpu_nvlink_errors_total", f'{its},kind="replay"', lambda _: 12),
        ("gpu_pcie_replays_total", its, lambda minute: 400 + minute // 300),
        ("gpu_pcie_link_width", its, lambda minute: 16 if computes(minute) > 0.1 or minute % 30 == 0 else 8),
        ("gpu_sample_age_seconds", its, lambda minute: 45 if minute % 200 < 3 else 5),
        ("gpu_memory_bytes", its, lambda _: CARD_BYTES),
        ("gpu_memory_used_bytes", its, memory),
        ("pod_gpu_held_ratio", holder, lambda _: 1),
        ("pod_gpu_used_ratio", holder, computes),
    ):
        found |= of_agent(node, name, labels, at)
    return found


def scheduler() -> dict[str, Values]:
    """Two schedulers, of which the other leads after the change."""
    found: dict[str, Values] = {}

    def of(instance: str, name: str, labels: str, at: At, *, leads: bool) -> None:
        def value(minute: int) -> float | None:
            up = minute < FAILOVER_AT or minute > FAILOVER_AT + 5 if instance == "a" else True
            leading = minute < FAILOVER_AT if instance == "a" else minute >= FAILOVER_AT + 2
            return at(minute) if up and (leading or not leads) else None

        inner = ",".join(part for part in (labels, f'instance="{instance}:8080"') if part)
        found[f"gpufleet_scheduler_{name}{{{inner}}}"] = [value(minute) for minute in range(DAY)]

    first_led: At = lambda minute: int(minute < FAILOVER_AT)  # noqa: E731
    second_led: At = lambda minute: int(minute >= FAILOVER_AT + 2)  # noqa: E731
    for instance, led in (("a", first_led), ("b", second_led)):
        of(instance, "leader", "", led, leads=False)
        end = 'credential="token"'
        of(
            instance,
            "credential_expiry_timestamp_seconds",
            end,
            lambda at: 60 * (at - at % 48 + 60),
            leads=False,
        )
        for name, labels, at in (
            ("rounds_total", "", lambda minute: 12 * minute),
            ("round_seconds_count", "", lambda minute: 12 * minute),
            ("round_seconds_bucket", 'le="0.1"', lambda minute: 12 * minute - 12 * minute // 200),
            ("first_verdict_seconds_count", "", lambda minute: 5 * minute),
            ("first_verdict_seconds_bucket", 'le="1.0"', lambda minute: 5 * minute - 5 * minute // 500),
            ("binds_total", 'outcome="bound"', lambda minute: 5 * minute),
            ("binds_total", 'outcome="refused"', lambda minute: minute // 240),
            ("kubelet_rejections_total", 'reason="OutOfcpu"', lambda minute: minute // 700),
            ("watch_age_seconds", 'kind="pods"', lambda minute: minute % 2 * 50),
            ("unreported_nodes", "", lambda minute: int(CAME_AT <= minute < CAME_AT + 3)),
            ("unreadable_objects", 'kind="pods"', lambda _: 0),
            ("foreign_gpus", 'holder="pod"', lambda _: 0),
            ("queue_fair_share", 'queue="ml",resource="gpu"', lambda _: 8),
            ("queue_used", 'queue="ml",resource="gpu"', lambda minute: 6 if minute % 180 < 20 else 8),
            ("oldest_wait_seconds", 'queue="ml",cause="queue-quota"', lambda minute: minute * MINUTE_S),
            (
                "partial_gang_seconds",
                'queue="ml"',
                lambda minute: minute % 240 * MINUTE_S if minute % 240 < 8 else 0,
            ),
            (
                "reservation_overdue_seconds",
                'queue="ml"',
                lambda minute: minute % 100 * 10 if minute % 100 < 80 else 0,
            ),
        ):
            of(instance, name, labels, at, leads=True)
        for node in NODES:
            report = f'node="{node}"'
            of(instance, "node_report", report, lambda _: 1, leads=True)
            series = f'gpufleet_scheduler_node_report{{{report},instance="{instance}:8080"}}'
            found[series] = [
                value if there(node, minute - 1) else None for minute, value in enumerate(found[series])
            ]
    return found


def kube_state_metrics() -> dict[str, Values]:
    """Capacity and what can be allocated; n2 has nothing to allocate while its driver is replaced."""
    found: dict[str, Values] = {}
    for node in NODES:
        inner = f'node="{node}",resource="nvidia_com_gpu"'
        for name in ("capacity", "allocatable"):
            found[f"kube_node_status_{name}{{{inner}}}"] = [
                None
                if not there(node, minute)
                else 0
                if name == "allocatable" and node == "n2" and DRIVER_AT <= minute < DRIVER_AT + 5
                else 2
                for minute in range(DAY)
            ]
    return found


LOUD = {rule["alert"] for rule in all_alerts() if rule["labels"]["severity"] in ("warning", "critical")}
"""What wakes a person or waits for one."""


def test_a_day_without_faults_pages_no_one_and_warns_of_nothing(tmp_path: Path) -> None:
    day = {**agents(), **scheduler(), **kube_state_metrics()}
    assert len(LOUD) > 40
    assert said_of_minutes(day, DAY, LOUD, tmp_path) == ""


def test_a_page_of_two_minutes_would_not_go_unseen(tmp_path: Path) -> None:
    name = 'gpufleet_scheduler_leader{instance="a:9400"}'
    short = {name: [0 if 100 <= minute < 104 else 1 for minute in range(DAY)]}
    assert "SchedulerNoLeader" in said_of_minutes(short, DAY, {"SchedulerNoLeader"}, tmp_path)
