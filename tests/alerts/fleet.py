"""Alerts about agents, about what is held and not used, and about queues."""

from tests.alerts.promtool import Case, Labels, Scraped, Trial, rising, steady

NODE = {"node": "n1"}
HOLDS = 'node="n1",gpu="0",uuid="GPU-a",namespace="ml",pod="train-0"'
HOLDER = {"node": "n1", "uuid": "GPU-a", "namespace": "ml", "pod": "train-0"}
CARD = {"node": "n1", "gpu": "0", "uuid": "GPU-a"}
QUEUE = {"queue": "ml"}
CARD_BYTES = 80e9


def agent_gauge(alert: str, name: str, count: int, summary: str) -> Trial:
    """A number that is 0 in health, of an agent, for fifteen minutes."""
    series = f'gpufleet_agent_{name}{{node="n1"}}'
    well, fault = {series: steady(0, 60)}, {series: steady(0, 10) + steady(count, 50)}
    return Trial(alert, "warning", well, fault, NODE, f"n1: {summary}", 24, 25, 20)


def nodes(silent: int) -> Scraped:
    """Ten nodes that report GPUs, so many of which are scraped no more from minute 10 on."""
    found: dict[str, list[float | None]] = {}
    for number in range(10):
        found[f'gpufleet_scheduler_node_report{{node="n{number}"}}'] = steady(1, 60)
        value = None if number < silent else 1
        found[f'gpufleet_agent_info{{node="n{number}"}}'] = steady(1, 10) + steady(value, 50)
    return found


def used(then: float, minutes: int) -> Scraped:
    """A pod that computes for ten minutes, and from then on only so much."""
    return {
        f"gpufleet_pod_gpu_held_ratio{{{HOLDS}}}": steady(1, minutes),
        f"gpufleet_pod_gpu_used_ratio{{{HOLDS}}}": steady(0.9, 10) + steady(then, minutes - 10),
    }


def memory(*then: float | None) -> Scraped:
    """A card's memory: half full for ten minutes, and these parts from then on."""
    return {
        'gpufleet_gpu_memory_bytes{node="n1",gpu="0",uuid="GPU-a"}': steady(CARD_BYTES, 50),
        'gpufleet_gpu_memory_used_bytes{node="n1",gpu="0",uuid="GPU-a"}': [
            None if part is None else part * CARD_BYTES for part in [*steady(0.5, 10), *then]
        ],
    }


def owed(holds: int, oldest_s: list[float | None], cause: str = "nodes") -> Scraped:
    """A queue with a fair share of 8 GPUs that holds so many while its oldest work waits."""
    gpus = '{queue="ml",resource="gpu"}'
    minutes = len(oldest_s)
    return {
        f"gpufleet_scheduler_queue_fair_share{gpus}": steady(8, minutes),
        f"gpufleet_scheduler_queue_used{gpus}": steady(holds, minutes),
        f'gpufleet_scheduler_oldest_wait_seconds{{queue="ml",cause="{cause}"}}': oldest_s,
    }


def queue_trial(alert: str, series: str, labels: Labels, summary: str, quiet: int, fires: int) -> Trial:
    """A gauge of the scheduler that grows by a minute every minute, and is absent in health."""
    return Trial(alert, "warning", {}, {series: rising(0, 60, 90)}, labels, summary, quiet, fires, quiet - 3)


def never(cause: str) -> Scraped:
    """Two pods that can never start, from minute 10 on."""
    series = f'gpufleet_scheduler_never_fits_pods{{queue="ml",cause="{cause}"}}'
    return {series: steady(None, 10) + steady(2, 50)}


AUTOSCALER = {'cluster_autoscaler_nodes_count{state="ready"}': steady(1, 90)}
"""One that is scraped all the time, as series of Cluster Autoscaler."""
KARPENTER = {'karpenter_build_info{version="1.15.0"}': steady(1, 90)}


def waits_for_nodes(oldest_s: list[float | None], cause: str = "gpu-busy", joins_at: int = 90) -> Scraped:
    """Work that waits on a fleet of one node, to which another comes at some minute."""
    return {
        f'gpufleet_scheduler_oldest_wait_seconds{{queue="ml",cause="{cause}"}}': oldest_s,
        'gpufleet_scheduler_node_report{node="n1"}': steady(1, 90),
        'gpufleet_scheduler_node_report{node="n2"}': steady(None, joins_at) + steady(1, 90 - joins_at),
    }


TRIALS = [
    Trial(
        "AgentSilent",
        "warning",
        nodes(0),
        nodes(1),
        {"node": "n0"},
        "n0: the agent is not scraped",
        19,
        20,
        15,
    ),
    Trial(
        "AgentsSilent", "critical", nodes(1), nodes(2), {}, "20% of the agents are not scraped", 19, 20, 15
    ),
    agent_gauge("AgentProblems", "problems", 2, "2 things keep the agent from knowing more"),
    agent_gauge("GPUMetricsNotMade", "untold_gpus", 1, "no metrics of 1 GPUs"),
    agent_gauge("GPUHoldersLost", "lost_holders", 3, "3 containers hold GPUs that the kubelet forgot"),
    Trial(
        "GPUIdleHeld",
        "info",
        used(0.6, 100),
        used(0.01, 100),
        HOLDER,
        "ml/train-0 holds a GPU and computes nothing",
        39,
        41,
        35,
    ),
    Trial(
        "GPUIdleHeldLong",
        "warning",
        used(0.6, 300),
        used(0.01, 300),
        HOLDER,
        "ml/train-0 has held a GPU for four hours and computed nothing",
        249,
        251,
        200,
    ),
    Trial(
        "GPUMemoryNearFull",
        "info",
        memory(*steady(0.5, 40)),
        memory(*rising(0.975, 0.0005, 40)),
        CARD,
        "n1: GPU 0: memory is 98.5% full, and grows",
        20,
        30,
        20,
    ),
    Trial(
        "QueueStarved",
        "warning",
        owed(8, rising(0, 60, 90)),
        owed(4, rising(0, 60, 90)),
        QUEUE,
        "Queue ml waits although it is owed 4 GPUs more",
        60,
        62,
        45,
    ),
    queue_trial(
        "GangStuck",
        'gpufleet_scheduler_partial_gang_seconds{queue="ml"}',
        QUEUE,
        "Queue ml: a gang has run in part for 32m 0s",
        30,
        32,
    ),
    Trial(
        "PodNeverFits",
        "warning",
        {},
        never("nodes"),
        {**QUEUE, "cause": "nodes"},
        "2 pods of queue ml can never start (nodes)",
        24,
        25,
        20,
    ),
    Trial(
        "QuotaNeverSuffices",
        "warning",
        {},
        never("queue-quota"),
        {**QUEUE, "cause": "queue-quota"},
        "2 pods of queue ml want more than it may ever have",
        24,
        25,
        20,
    ),
    Trial(
        "ScaleUpWedged",
        "warning",
        {**AUTOSCALER, **waits_for_nodes(steady(60, 90))},
        {**AUTOSCALER, **waits_for_nodes(rising(0, 60, 90))},
        QUEUE,
        "Queue ml has waited for nodes for 22m 0s, and none came",
        20,
        22,
        18,
    ),
    queue_trial(
        "ReservationOverdue",
        'gpufleet_scheduler_reservation_overdue_seconds{queue="ml"}',
        QUEUE,
        "Queue ml: a reservation is overdue by 22m 0s",
        20,
        22,
    ),
]


def rollout_gauge(
    alert: str, name: str, labels: Labels, summary: str, quiet: int, fires: int, *, absent: bool = False
) -> Trial:
    """A number of the operator about one policy, that is 0 or absent in health, and 2 from minute 10 on."""
    inner = ",".join(f'{key}="{value}"' for key, value in {"policy": "gpus", **labels}.items())
    series = f"gpufleet_operator_{name}{{{inner}}}"
    well = {} if absent else {series: steady(0, 70)}
    fault = {series: steady(None if absent else 0, 10) + steady(2, 60)}
    told = {"policy": "gpus", **({} if absent else labels)}
    return Trial(alert, "warning", well, fault, told, summary, quiet, fires, fires - 3)


TRIALS += [
    rollout_gauge(
        "RolloutStopped",
        "rollout_state_seconds",
        {"state": "Stopped"},
        "The rollout of gpus stopped: its driver does not work everywhere",
        9,
        14,
        absent=True,
    ),
    rollout_gauge(
        "RolloutNodeFailed",
        "rollout_nodes",
        {"phase": "RolledBack"},
        "The rollout of gpus: 2 nodes are RolledBack",
        9,
        14,
    ),
    rollout_gauge(
        "RolloutStuck",
        "rollout_blocked_nodes",
        {},
        "The rollout of gpus does not go on: 2 nodes cannot begin",
        39,
        40,
    ),
    rollout_gauge(
        "RolloutNodeOverdue",
        "rollout_overdue_nodes",
        {},
        "The rollout of gpus: 2 nodes are past their deadline",
        19,
        20,
    ),
]

PARKING = "gpufleet_operator_parking_unmeasured_work{}"
SOON_UNDONE = "gpufleet_operator_parks_soon_undone_total{}"
TRIALS += [
    Trial(
        "ParkingUnmeasured",
        "warning",
        {PARKING: steady(0, 90)},
        {PARKING: steady(0, 10) + steady(2, 80)},
        {},
        "Of 2 pieces of work with a rule it is not known whether they are idle",
        69,
        70,
        67,
    ),
    Trial(
        "ParkingTooSoon",
        "warning",
        {SOON_UNDONE: rising(0, 0, 20) + steady(1, 70)},
        {SOON_UNDONE: steady(0, 60) + steady(4, 30)},
        {},
        "Parked work came back within 15 minutes 4 times in a day",
        59,
        60,
        57,
    ),
]

YOUNG: Scraped = {
    f"gpufleet_pod_gpu_held_ratio{{{HOLDS}}}": steady(None, 40) + steady(1, 60),
    f"gpufleet_pod_gpu_used_ratio{{{HOLDS}}}": steady(None, 40) + steady(0.01, 60),
}
BURSTS: Scraped = {
    f"gpufleet_pod_gpu_held_ratio{{{HOLDS}}}": steady(1, 125),
    f"gpufleet_pod_gpu_used_ratio{{{HOLDS}}}": [*steady(0.01, 24), 0.8] * 5,
}
GAPS: Scraped = {
    f"gpufleet_pod_gpu_held_ratio{{{HOLDS}}}": steady(1, 100),
    f"gpufleet_pod_gpu_used_ratio{{{HOLDS}}}": [*steady(0.01, 80), *steady(None, 10), *steady(0.01, 10)],
}


def drawing(then_w: float) -> Scraped:
    """A pod that seems to compute nothing, on a card that draws so much now and then, and else 70 W."""
    watts = [*steady(70, 10), then_w] * 9 + [70.0]
    return {**used(0.01, 100), 'gpufleet_gpu_power_watts{node="n1",gpu="0",uuid="GPU-a"}': watts}


UNTOLD: Scraped = {f"gpufleet_pod_gpu_held_ratio{{{HOLDS}}}": steady(1, 100)}
NO_LEADER_FOR_TWO_MINUTES: Scraped = {
    series: [*values[:40], None, None, *values[42:]] for series, values in owed(4, rising(0, 60, 90)).items()
}
LEFT: Scraped = {
    'gpufleet_scheduler_node_report{node="n1"}': steady(1, 10) + steady(None, 60),
    'gpufleet_agent_info{node="n1"}': steady(1, 10) + steady(None, 60),
}
A_GAP_OF_THE_LEADER: Scraped = {
    'gpufleet_scheduler_node_report{node="n1"}': steady(1, 14) + steady(None, 2) + steady(1, 40),
    'gpufleet_agent_info{node="n1"}': steady(1, 10) + steady(None, 46),
}

SPECIAL = [
    Case("a pod that is twenty minutes old", "GPUIdleHeld", YOUNG, 60),
    Case("work in bursts", "GPUIdleHeld", BURSTS, 120),
    Case("a shared card of which no use is told", "GPUIdleHeld", UNTOLD, 90),
    Case("use of which ten minutes are not known", "GPUIdleHeld", GAPS, 95),
    Case("a card that draws more now and then", "GPUIdleHeld", drawing(95), 90),
    Case("a card whose power is flat", "GPUIdleHeld", drawing(90), 90, ({**HOLDER, "severity": "info"},)),
    Case("a program that takes all memory at its start", "GPUMemoryNearFull", memory(*steady(0.98, 40)), 45),
    Case(
        "another leader after two minutes",
        "QueueStarved",
        NO_LEADER_FOR_TWO_MINUTES,
        62,
        ({**QUEUE, "severity": "warning"},),
    ),
    Case("a queue that waits beyond its share", "QueueStarved", owed(8, rising(0, 60, 90)), 80),
    Case("a queue whose work is new", "QueueStarved", owed(4, steady(30, 90)), 80),
    Case(
        "work that can never start has its own alert",
        "QueueStarved",
        {**owed(4, rising(0, 60, 90)), **never("nodes")},
        55,
    ),
    Case("no autoscaler", "ScaleUpWedged", waits_for_nodes(rising(0, 60, 90)), 60),
    Case(
        "Karpenter",
        "ScaleUpWedged",
        {**KARPENTER, **waits_for_nodes(rising(0, 60, 90))},
        30,
        ({**QUEUE, "severity": "warning"},),
    ),
    Case(
        "a node came",
        "ScaleUpWedged",
        {**AUTOSCALER, **waits_for_nodes(rising(0, 60, 90), joins_at=15)},
        30,
    ),
    Case(
        "a node came, and none after it for twenty minutes",
        "ScaleUpWedged",
        {**AUTOSCALER, **waits_for_nodes(rising(0, 60, 90), joins_at=15)},
        45,
        ({**QUEUE, "severity": "warning"},),
    ),
    Case(
        "work that waits for quota",
        "ScaleUpWedged",
        {**AUTOSCALER, **waits_for_nodes(rising(0, 60, 90), "queue-quota")},
        60,
    ),
    Case(
        "work that can never start",
        "ScaleUpWedged",
        {**AUTOSCALER, **waits_for_nodes(rising(0, 60, 90)), **never("gpu-busy")},
        55,
    ),
    Case("a quota is not the nodes' fault", "PodNeverFits", never("queue-quota"), 40),
    Case("nodes are not the quota's fault", "QuotaNeverSuffices", never("nodes"), 40),
    # A scheduler's list of nodes outlasts a node by the five minutes that bridge a new leader.
    Case("a node that left", "AgentSilent", LEFT, 20, also_at=(21, 25)),
    Case("the only node that left", "AgentsSilent", LEFT, 20, also_at=(21, 25)),
    Case(
        "a change of the leader", "AgentSilent", A_GAP_OF_THE_LEADER, 20, ({**NODE, "severity": "warning"},)
    ),
    Case("one agent of ten is no failure of the roll-out", "AgentsSilent", nodes(1), 40),
]
