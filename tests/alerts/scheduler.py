"""Alerts about the scheduler, its service levels, credentials and the alerts themselves."""

from collections.abc import Iterator

from tests.alerts.promtool import Case, Labels, Scraped, Trial, Values, rising, steady

DAY_S = 86_400
ITS = {"instance": "a:9400"}


def scheduler(name: str, values: Values, labels: str = "") -> Scraped:
    """A series of the scheduler."""
    return {f"gpufleet_scheduler_{name}{{{labels}}}": values}


LEADS = scheduler("leader", steady(1, 100))
STANDS_BY = scheduler("leader", steady(0, 100))
STOPPED = scheduler("rounds_total", rising(0, 12, 11) + steady(120, 50))


def leader_gauge(alert: str, name: str, labels: Labels, summary: str) -> Trial:
    """A number that is 0 in health, of the scheduler that leads, for fifteen minutes."""
    inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
    well, fault = scheduler(name, steady(0, 60), inner), scheduler(name, steady(0, 10) + steady(3, 50), inner)
    return Trial(alert, "warning", {**well, **LEADS}, {**fault, **LEADS}, labels, summary, 24, 25, 20)


def binds(refused: int) -> Scraped:
    """Five Bindings a minute, and from minute 10 on so many that the server refuses."""
    return {
        **scheduler("binds_total", rising(0, 5, 60), 'outcome="bound"'),
        **scheduler("binds_total", steady(0, 10) + rising(refused, refused, 50), 'outcome="refused"'),
    }


ASKED_FOR = "vllm:num_requests_waiting"


def ends(credential: str, values: Values) -> Scraped:
    """When an agent's credential ends; minute 0 is at 0 s."""
    return {f'gpufleet_agent_credential_expiry_timestamp_seconds{{credential="{credential}"}}': values}


def certificate(alert: str, severity: str, left_s: int, summary: str) -> Trial:
    """A certificate that is replaced by one that ends soon."""
    well = ends("client-certificate", steady(30 * DAY_S, 60))
    fault = ends("client-certificate", steady(30 * DAY_S, 10) + steady(left_s, 50))
    labels = {**ITS, "credential": "client-certificate"}
    return Trial(alert, severity, well, fault, labels, summary, 14, 15)


def slow(metric: str, bound_s: str, share: float, minutes: int) -> Scraped:
    """A hundred events a minute, of which this share takes longer than the bound."""
    return {
        **scheduler(f"{metric}_count", rising(0, 100, minutes)),
        **scheduler(f"{metric}_bucket", rising(0, 100 * (1 - share), minutes), f'le="{bound_s}"'),
    }


def failing(share: float, minutes: int) -> Scraped:
    """A hundred Bindings a minute, of which this share fails."""
    return {
        **scheduler("binds_total", rising(0, 100 * (1 - share), minutes), 'outcome="bound"'),
        **scheduler("binds_total", rising(0, 100 * share, minutes), 'outcome="gave-up"'),
    }


NODES = 100
"""The fewest nodes of which the service level of agents is told."""


def agents(share: float, minutes: int) -> Scraped:
    """A hundred nodes, this share of which is told of late.

    Of half of these the agent is not scraped; the others have old readings.
    """
    late = round(share * NODES)
    found: dict[str, Values] = {}
    for number in range(NODES):
        labels = f'node="n{number}"'
        is_silent, is_old = number < late // 2, number < late
        found |= scheduler("node_report", steady(1, minutes), labels)
        found[f"gpufleet_agent_info{{{labels}}}"] = steady(None if is_silent else 1, minutes)
        age_s = None if is_silent else 45 if is_old else 5
        found[f'gpufleet_gpu_sample_age_seconds{{{labels},uuid="GPU-a"}}'] = steady(age_s, minutes)
    return found


# The Site Reliability Workbook, chapter 5: at 99 %, shares of failures above 14.4, 6, 3 and 1 in a hundred.
WINDOWS = (
    ("1h", "critical", 0.2, 1, 10),
    ("6h", "critical", 0.1, 14, 25),
    ("1d", "warning", 0.05, 59, 70),
    ("3d", "warning", 0.02, 179, 190),
)


def burn_rates() -> Iterator[Trial]:
    """For each service level and window a share of failures that only this window is there for."""
    for window, severity, share, quiet, fires in WINDOWS:
        labels = {"window": window}
        told = f"{100 * share:.4g}% within {window}"
        for alert, words, fault, well in (
            (
                "SchedulerDecisionsSlow",
                "Decision rounds take more than 0.1 s",
                slow("round_seconds", "0.1", share, 200),
                slow("round_seconds", "0.1", 0.001, 200),
            ),
            (
                "SchedulerVerdictsSlow",
                "Pods wait more than 1 s for their first verdict",
                slow("first_verdict_seconds", "1.0", share, 200),
                slow("first_verdict_seconds", "1.0", 0.001, 200),
            ),
            ("SchedulerBindingsFail", "Bindings fail", failing(share, 200), failing(0.001, 200)),
        ):
            yield Trial(alert, severity, well, fault, labels, f"{words}: {told}", quiet, fires, quiet)
        summary = f"Agents tell nothing new: {100 * share:.4g}% of the time of all nodes within {window}"
        yield Trial(
            "AgentsStale", severity, agents(0, 200), agents(share, 200), labels, summary, quiet, fires, quiet
        )


TRIALS = [
    Trial(
        "SchedulerNoLeader",
        "critical",
        LEADS,
        scheduler("leader", steady(1, 10) + steady(0, 50)),
        {},
        "Not exactly one scheduler leads",
        11,
        12,
        11,
        fires_without_series=True,
    ),
    Trial(
        "SchedulerStalled",
        "critical",
        {**scheduler("rounds_total", rising(0, 12, 61)), **LEADS},
        {**STOPPED, **LEADS},
        ITS,
        "The scheduler leads and decides nothing",
        19,
        21,
    ),
    Trial(
        "SchedulerWatchSilent",
        "critical",
        {**scheduler("watch_age_seconds", steady(5, 60), 'kind="pods"'), **LEADS},
        {**scheduler("watch_age_seconds", steady(5, 10) + steady(200, 50), 'kind="pods"'), **LEADS},
        {**ITS, "kind": "pods"},
        "The scheduler has heard nothing of pods for 3m 20s",
        14,
        15,
    ),
    Trial(
        "BindFailures", "warning", binds(0), binds(2), {}, "20 Bindings failed within ten minutes", 20, 32, 31
    ),
    Trial(
        "KubeletRejections",
        "warning",
        scheduler("kubelet_rejections_total", steady(0, 60), 'reason="OutOfcpu"'),
        scheduler("kubelet_rejections_total", steady(0, 10) + rising(1, 1, 50), 'reason="OutOfcpu"'),
        {"reason": "OutOfcpu"},
        "Kubelets turned 11 pods away within an hour (OutOfcpu)",
        12,
        20,
        18,
    ),
    leader_gauge(
        "NodesUnreported", "unreported_nodes", {}, "3 nodes with GPUs get no work for want of a report"
    ),
    leader_gauge(
        "ObjectsUnreadable", "unreadable_objects", {"kind": "pods"}, "3 objects of pods cannot be read"
    ),
    leader_gauge(
        "GPUsHeldWithoutGrant", "foreign_gpus", {"holder": "pod"}, "3 GPUs are held without a grant (by: pod)"
    ),
    certificate(
        "CredentialEnds", "warning", 3 * DAY_S, "The client-certificate of a:9400 ends in 2d 23h 45m 0s"
    ),
    certificate(
        "CredentialEndsSoon", "critical", DAY_S // 2, "The client-certificate of a:9400 ends in 11h 45m 0s"
    ),
    Trial(
        "TokenNotRenewed",
        "critical",
        ends("token", rising(3600, 60, 80)),
        ends("token", steady(3700, 80)),
        ITS,
        "The token of a:9400 ends in 40s",
        59,
        61,
    ),
    Trial(
        "MetricsApiStale",
        "warning",
        {f'gpufleet_metrics_value_age_seconds{{metric="{ASKED_FOR}"}}': steady(12, 60)},
        {f'gpufleet_metrics_value_age_seconds{{metric="{ASKED_FOR}"}}': steady(12, 10) + rising(65, 60, 50)},
        {"metric": ASKED_FOR},
        f"Autoscalers get nothing of {ASKED_FOR}",
        14,
        15,
        14,
    ),
    Trial(
        "NodeCordoned",
        "none",
        {'kube_node_spec_unschedulable{node="n1"}': steady(0, 30)},
        {'kube_node_spec_unschedulable{node="n1"}': steady(0, 10) + steady(1, 20)},
        {"node": "n1"},
        "n1 is cordoned",
        9,
        10,
        10,
    ),
    *burn_rates(),
]

CRITICAL = {"severity": "critical"}
TWO_LEADERS: Scraped = {
    'gpufleet_scheduler_leader{instance="a:9400"}': steady(1, 60),
    'gpufleet_scheduler_leader{instance="b:9400"}': steady(0, 10) + steady(1, 50),
}
HANDED_OVER: Scraped = {
    'gpufleet_scheduler_leader{instance="a:9400"}': steady(1, 10) + steady(0, 50),
    'gpufleet_scheduler_leader{instance="b:9400"}': steady(0, 11) + steady(1, 49),
}
ONE_CLUSTER_GONE: Scraped = {
    'gpufleet_scheduler_leader{cluster="east",instance="a:9400"}': steady(1, 60),
    'gpufleet_scheduler_leader{cluster="west",instance="a:9400"}': steady(1, 10) + steady(None, 50),
}
SLOW_START: Scraped = {
    **scheduler("round_seconds_count", rising(0, 0.1, 60)),
    **scheduler("round_seconds_bucket", rising(0, 0.05, 60), 'le="0.1"'),
}

SPECIAL = [
    Case("two lead", "SchedulerNoLeader", TWO_LEADERS, 20, (CRITICAL,)),
    Case("a stand-by takes over within a minute", "SchedulerNoLeader", HANDED_OVER, 20),
    Case(
        "the scheduler of one cluster is gone",
        "SchedulerNoLeader",
        ONE_CLUSTER_GONE,
        20,
        ({**CRITICAL, "cluster": "west"},),
    ),
    Case(
        "the API server reaches no server of a metrics API",
        "MetricsApiStale",
        {
            'aggregator_unavailable_apiservice{name="v1beta1.external.metrics.k8s.io"}': steady(0, 10)
            + steady(1, 50)
        },
        20,
        ({"severity": "warning", "name": "v1beta1.external.metrics.k8s.io"},),
    ),
    Case(
        "another API is not reached",
        "MetricsApiStale",
        {'aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"}': steady(1, 60)},
        20,
    ),
    Case("a stand-by decides nothing", "SchedulerStalled", {**STOPPED, **STANDS_BY}, 40),
    Case(
        "a stand-by hears nothing",
        "SchedulerWatchSilent",
        {**scheduler("watch_age_seconds", steady(900, 60)), **STANDS_BY},
        40,
    ),
    Case(
        "few Bindings of many fail",
        "BindFailures",
        {
            **scheduler("binds_total", rising(0, 100, 60), 'outcome="bound"'),
            **scheduler("binds_total", rising(0, 2, 60), 'outcome="refused"'),
        },
        50,
    ),
    Case(
        "pods that were deleted meanwhile are no failures",
        "BindFailures",
        scheduler("binds_total", rising(0, 5, 60), 'outcome="gone"'),
        50,
    ),
    Case("a silent agent of few", "AgentsStale", dict(list(agents(0.2, 60).items())[: 3 * (NODES - 1)]), 50),
    Case("one slow decision of six", "SchedulerDecisionsSlow", SLOW_START, 50),
    Case("a token that is renewed in time", "CredentialEnds", ends("token", rising(3600, 60, 60)), 50),
    Case(
        "what was left behind by a leader that stands by now",
        "ObjectsUnreadable",
        {
            **scheduler("unreadable_objects", steady(3, 60), 'kind="pods"'),
            **STANDS_BY,
        },
        50,
    ),
    Case("the heartbeat, whatever is scraped", "Heartbeat", {}, 0, ({"severity": "none"},)),
    Case("the heartbeat, an hour later", "Heartbeat", {}, 60, ({"severity": "none"},)),
]
