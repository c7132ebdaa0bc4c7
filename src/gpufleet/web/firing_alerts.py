"""The alerts of gpufleet that fire, as a Prometheus server tells them, each with the page about it."""

import datetime as dt
import time

from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.codec.times import whole_time
from gpufleet.model.model_errors import GpufleetError
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.moment import values_at
from gpufleet.web.documents import AlertRow

RUNBOOKS = "https://gpufleet.io/docs/alerts.html"
FIRING = 'ALERTS{alertstate="firing"}'
SINCE = "ALERTS_FOR_STATE"
"""The server's own series of when each alert became active, in seconds since 1970."""

CLOCKS_APART_S = 60.0
"""An alert that began later than so much from now did not begin then."""

OWN_LABELS = frozenset({"alertname", "alertstate", "severity"})
NAMES = frozenset(
    [
        "AdmissionCertificateEnds",
        "AdmissionSlow",
        "AdmissionUnjudged",
        "AdmissionWebhookDown",
        "AgentProblems",
        "AgentSilent",
        "AgentsSilent",
        "AgentsStale",
        "BindFailures",
        "BudgetSpent",
        "BudgetsNotChecked",
        "CredentialEnds",
        "CredentialEndsSoon",
        "ExpanderFails",
        "GPUCapacityLost",
        "GPUDriversDiffer",
        "GPUGone",
        "GPUHoldersLost",
        "GPUHot",
        "GPUIdleHeld",
        "GPUIdleHeldLong",
        "GPULinkErrors",
        "GPUMemoryNearFull",
        "GPUMetricsNotMade",
        "GPUMissing",
        "GPUNeedsReset",
        "GPUPCIeNarrow",
        "GPUPCIeReplays",
        "GPUPowerBrake",
        "GPUProgramXids",
        "GPUReadingsOld",
        "GPURowRemapFailed",
        "GPURowRemapPending",
        "GPUThermalThrottle",
        "GPUThermalThrottleSevere",
        "GPUUncorrectableECC",
        "GPUUnhealthy",
        "GPUUnhealthyInUse",
        "GPUsHeldWithoutGrant",
        "GangStuck",
        "KubeletRejections",
        "MetricsApiStale",
        "NodeCordoned",
        "NodesUnreported",
        "ObjectsUnreadable",
        "ParkingTooSoon",
        "ParkingUnmeasured",
        "PodNeverFits",
        "QueueStarved",
        "QuotaNeverSuffices",
        "ReservationOverdue",
        "RolloutNodeFailed",
        "RolloutNodeOverdue",
        "RolloutStopped",
        "RolloutStuck",
        "ScaleUpWedged",
        "SchedulerBindingsFail",
        "SchedulerDecisionsSlow",
        "SchedulerNoLeader",
        "SchedulerStalled",
        "SchedulerVerdictsSlow",
        "SchedulerWatchSilent",
        "TokenNotRenewed",
    ]
)
"""The alerts of the chart, but for the heartbeat, which fires when all is well."""


class FiringAlerts:
    """The alerts that fire now, as a Prometheus server tells them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def now(self) -> tuple[tuple[AlertRow, ...], str]:
        """The alerts that fire, the most severe first, or why they are not known."""
        try:
            return await in_daemon_thread(self._asked), ""
        except GpufleetError as error:
            return (), f"which alerts fire is not known: {error}"

    def _asked(self) -> tuple[AlertRow, ...]:
        now_s = int(time.time())
        firing, since = self._last(FIRING, now_s), self._last(SINCE, now_s)
        begun = {_identity(labels): at_s for labels, at_s in since}
        found = [
            _row(labels, begun.get(_identity(labels)), now_s)
            for labels, _ in firing
            if labels.get("alertname") in NAMES
        ]
        order = {"critical": 0, "warning": 1}
        return tuple(sorted(found, key=lambda one: (order.get(one.severity, 2), one.name, one.since)))

    def _last(self, promql: str, now_s: int) -> list[tuple[dict[str, str], float]]:
        return [(dict(one.labels), one.value) for one in values_at(self._source, promql, now_s, promql)]


def _identity(labels: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name != "alertstate")


def _row(labels: dict[str, str], since_s: float | None, now_s: int) -> AlertRow:
    name = labels["alertname"]
    own = {key: value for key, value in sorted(labels.items()) if key not in OWN_LABELS}
    says = ", ".join(f"{key} {value}" for key, value in own.items())
    is_known = since_s is not None and 0 <= since_s <= now_s + CLOCKS_APART_S
    since = "" if since_s is None or not is_known else whole_time(dt.datetime.fromtimestamp(since_s, dt.UTC))
    return AlertRow(name, labels.get("severity", ""), since, says, f"{RUNBOOKS}#{name.lower()}", own)
