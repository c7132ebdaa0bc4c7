"""Every counter stands at 0 before its first event, for all values of its labels that are known by then.

``increase`` needs a sample before an event: a series that begins with 1 hides its first event from rules.
"""

import datetime as dt
from collections.abc import Iterable
from itertools import product

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.admission.webhook.record import ACTIONS, RULES, AdmissionRecord
from gpufleet.admission.webhook.record import OUTCOMES as REVIEW_OUTCOMES
from gpufleet.agent.mig.timed_driver import StepCounts
from gpufleet.cluster.watching.mirrors import FOLLOWED_BY_SCHEDULER
from gpufleet.devices.xid import XidAction
from gpufleet.engine.instruction import WhyEvicted
from gpufleet.eviction.plan import Cause
from gpufleet.expander.choice import Outcome as ExpanderOutcome
from gpufleet.expander.expander_record import FAILED, ExpanderRecord
from gpufleet.ledger.figures import LedgerFigures, LedgerMetrics, MonthFigures
from gpufleet.metrics.serving_record import OUTCOMES, STATUSES, ServingRecord
from gpufleet.mig.step_times import Step
from gpufleet.model.identifiers import QueueName
from gpufleet.operator.figures import OperatorFigures, OperatorMetrics
from gpufleet.operator.parking.stamp import ParkingCause
from gpufleet.operator.parking.tally import ParkingTally
from gpufleet.scheduler.bind_outcome import Outcome
from gpufleet.scheduler.bounded_labels import OTHERS
from gpufleet.scheduler.metrics import REJECTIONS
from gpufleet.scheduler.queue_metrics import FOR_QUEUES
from tests.agent.exporter.builders import Node, node_of
from tests.alerts import inventory

QUEUE = QueueName("q")
THINGS = {"node", "gpu", "uuid", "namespace", "pod", "mig_id", "mig_profile", "mode"}
"""Labels that say of which card, pod or node a series is; it is there from when the thing is known."""

VALUES: dict[tuple[str, str], Iterable[str]] = {
    ("gpufleet_gpu_xid_events_total", "class"): [one.value for one in XidAction],
    ("gpufleet_agent_mig_step_seconds_total", "step"): [one.value for one in Step],
    ("gpufleet_agent_mig_steps_total", "step"): [one.value for one in Step],
    ("gpufleet_admission_findings_total", "action"): ACTIONS,
    ("gpufleet_admission_findings_total", "rule"): RULES,
    ("gpufleet_admission_reviews_total", "outcome"): REVIEW_OUTCOMES,
    ("gpufleet_expander_questions_total", "outcome"): [*(one.value for one in ExpanderOutcome), FAILED],
    ("gpufleet_metrics_requests_total", "code"): STATUSES,
    ("gpufleet_metrics_values_total", "outcome"): OUTCOMES,
    ("gpufleet_operator_parks_total", "cause"): [one.value for one in ParkingCause],
    ("gpufleet_scheduler_binds_total", "outcome"): [one.value for one in Outcome],
    ("gpufleet_scheduler_evictions_refused_total", "cause"): [one.value for one in Cause],
    ("gpufleet_scheduler_evictions_total", "outcome"): ("evicted", "deleted", "refused"),
    ("gpufleet_scheduler_evictions_total", "reason"): [one.value for one in WhyEvicted],
    ("gpufleet_scheduler_kubelet_rejections_total", "reason"): REJECTIONS,
    ("gpufleet_scheduler_queue_evictions_total", "queue"): (QUEUE, OTHERS),
    ("gpufleet_scheduler_queue_evictions_total", "reason"): [one.value for one in FOR_QUEUES],
    ("gpufleet_scheduler_queue_wait_seconds", "queue"): (QUEUE, OTHERS),
    ("gpufleet_scheduler_relists_total", "kind"): [one.kind.resource for one in FOLLOWED_BY_SCHEDULER],
}
"""What a label of a counter can say, by metric and label."""

COUNTED_BY_OTHERS = {
    ("gpufleet_gpu_throttle_seconds_total", "reason"): "the driver counts it since it was loaded",
    ("gpufleet_gpu_nvlink_errors_total", "kind"): "the driver counts it since it was loaded",
}
NOT_KNOWN = {
    ("gpufleet_gpu_xid_errors_total", "xid"): "by class they stand at 0; of each card there were 150 series",
}
COUNTERS = [one for one in inventory.listed() if one.type in {"counter", "histogram"}]


def labels_of_events(metric: inventory.Metric) -> list[str]:
    """The labels that tell events apart."""
    return [one for one in metric.labels if one not in THINGS]


def is_excused(metric: inventory.Metric) -> bool:
    """Whether others count it, its values are unknown, or it begins with its card's first reading."""
    labels = {(metric.name, one) for one in labels_of_events(metric)}
    return bool(labels & {*COUNTED_BY_OTHERS, *NOT_KNOWN}) or (not labels and bool(metric.labels))


def pages_at_the_beginning() -> str:
    """What each program tells of which a counter is, before anything has happened to it."""
    agent = Node(node_of("model: H100-80GB"), steps=StepCounts())
    agent.exporter.draw()
    admission, apis = AdmissionRecord(lambda: 0.0), ServingRecord(lambda: 0.0)
    at_rest = OperatorFigures({}, (), ParkingTally().count((), 0, 0))
    operator = OperatorMetrics(lambda: at_rest, lambda: dt.datetime.now(dt.UTC))
    # A month is begun before anything is followed.
    begun = LedgerFigures(0, {}, {}, MonthFigures(open=1, sealed=0, size_bytes=0))
    others = (
        LedgerMetrics(lambda: begun).registry,
        inventory.new_scheduler(QUEUE).registry,
        admission.registry,
        apis.registry,
        operator.registry,
        ExpanderRecord().registry,
    )
    return agent.raw() + "".join(generate_latest(one).decode() for one in others)


def series_at_the_beginning(metric: inventory.Metric) -> list[tuple[dict[str, str], float]]:
    """The series of a counter, or of the count of a histogram."""
    name = f"{metric.name}_count" if metric.type == "histogram" else metric.name
    families = text_string_to_metric_families(pages_at_the_beginning())
    return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


@pytest.mark.parametrize(
    "metric", [one for one in COUNTERS if not is_excused(one)], ids=lambda metric: metric.name
)
def test_a_counter_stands_at_0_before_its_first_event(metric: inventory.Metric) -> None:
    labels = labels_of_events(metric)
    found = series_at_the_beginning(metric)
    expected = set(product(*(map(str, VALUES[metric.name, one]) for one in labels)))
    assert {tuple(series[one] for one in labels) for series, _ in found} == expected
    assert {value for _, value in found} == {0}


def test_an_exception_is_about_a_label_that_there_is() -> None:
    there = {(metric.name, label) for metric in COUNTERS for label in metric.labels}
    assert {*VALUES, *COUNTED_BY_OTHERS, *NOT_KNOWN} <= there
