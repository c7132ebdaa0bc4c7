"""The metrics of all parts: those of their pages and of the inventory.

    python -m tests.alerts.inventory

writes the inventory anew from pages that have every metric. Rules, boards and documents are held to it, so a
metric that is renamed is noticed wherever it is used.
"""

import datetime as dt

import msgspec
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.admission.webhook.record import AdmissionRecord
from gpufleet.agent.exporter.exporter import Exporter
from gpufleet.agent.mig.timed_driver import StepCounts
from gpufleet.cluster.queues.queue_figures import QueueFigures, ResourceFigures
from gpufleet.devices.clock_events import ThrottleReason
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Activity, LinkErrorKind, Remaps
from gpufleet.expander.expander_record import ExpanderRecord
from gpufleet.kube.expiry import Expiry
from gpufleet.ledger.figures import BudgetAmounts, BudgetFigures, LedgerFigures, LedgerMetrics, MonthFigures
from gpufleet.ledger.versions import ObjectKind
from gpufleet.metrics.serving_record import ServingRecord
from gpufleet.model.identifiers import NodeName, QueueName, QuotaResource
from gpufleet.operator.figures import OperatorFigures, OperatorMetrics, RolloutFigures
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase
from gpufleet.operator.parking.tally import ParkingFigures
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase, RolloutState
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.waiting_metrics import GangState, WaitingFigures, WaitingPod
from tests.agent.exporter.builders import (
    CUT_H100,
    NOW_S,
    Node,
    changed,
    holds,
    memory,
    node_of,
    pod,
    sample,
)
from tests.agent.set_clock import SetClock
from tests.alerts.promtool import FOLDER

FILE = FOLDER / "metrics.yaml"
HEAD = """\
# Every metric of all parts under names of our own: type, unit and labels.
# A label without a value is left out of a series. `python -m tests.alerts.inventory` writes this list;
# rules and documents are held to it.
"""
UNITS = ("seconds", "bytes", "celsius", "watts", "joules", "ratio")
"""Base units of Prometheus, by which a name ends."""


class Metric(msgspec.Struct, frozen=True, order=True):
    """A line of the inventory; ``unit`` is empty for what is counted."""

    name: str
    type: str
    unit: str
    labels: list[str]
    help: str


def agent_page() -> str:
    """A page with every metric of an agent: a whole card and a cut one, both used, one out of service."""
    node = Node(node_of("model: H100-80GB", CUT_H100))
    small = node.topics.gpus.value.gpus[1].facts.mig[0]
    gpus = changed(node.topics.gpus.value, 0, xids={79: 1}, health=Verdict.UNHEALTHY, reason="Xid 79")
    gpus = changed(gpus, 1, sick_instances={small.uuid: "Xid 95"})
    node.topics.gpus.publish(gpus)
    node.exporter = Exporter(
        node.topics,
        SetClock(node),
        expiries=lambda: (Expiry("client-certificate", NOW_S + 60),),
        mig_steps=StepCounts().told,
    )
    node.has(pod("a"), pod("b"))
    node.gave(holds("a", node.card()), holds("b", small.uuid, resource="nvidia.com/mig-1g.10gb"))
    readings = sample(
        memory=memory(10),
        gpu_busy_pct=1,
        power_w=1.0,
        gpu_celsius=1,
        energy_mj=1,
        slowdown_celsius=1,
        uncorrected_errors=0,
        remaps=Remaps(pending=False, failed=False),
        pcie_replays=0,
        pcie_width=16,
        throttled_ns=dict.fromkeys(ThrottleReason, 0),
        nvlink_errors=dict.fromkeys(LinkErrorKind, 0),
    )
    node.reads(0, readings)
    node.reads(
        1, readings, {small.uuid: sample(memory=memory(10), activity=Activity(graphics_engine_ratio=0.5))}
    )
    node.exporter.draw()
    return node.raw()


def new_scheduler(queue: QueueName) -> Metrics:
    """Metrics of a scheduler that knows of a queue, to which nothing happened yet."""
    metrics = Metrics()
    gpus = ResourceFigures(QuotaResource("gpu"), 1000, owed=1000, nominal=1000)
    metrics.queues.update([QueueFigures(queue, (gpus,), {"quota": 1}, share_milli=1)])
    return metrics


def scheduler_metrics() -> Metrics:
    """Metrics that have a series of each."""
    queue = QueueName("q")
    metrics = new_scheduler(queue)
    metrics.queues.waited(queue, 1.0)
    metrics.waiting.update(
        WaitingFigures(
            1.0,
            (WaitingPod("q", "nodes", 0.0, never_fits=True),),
            (GangState("q", "partial", 0.0),),
            (("q", 1.0),),
            (NodeName("n1"),),
        )
    )
    for one in vars(metrics).values():
        if isinstance(one, MetricWrapperBase) and one._labelnames:
            one.labels(*one._labelnames)
    return metrics


def operator_page() -> str:
    """A page of an operator that leads, with a rollout under way, parked work and a project."""
    progress = Progress("an image", RolloutState.ROLLING, 0)
    rollout = RolloutFigures("gpus", progress, {RolloutPhase.CHANGING: 1}, 0, (1,))
    parking = ParkingFigures({ParkingPhase.PARKED: 1}, 1, 0, 0, {ParkingCause.IDLE: 1}, 0, 1)
    figures = OperatorFigures({("gpus", "RollingOut"): 1}, (rollout,), parking, {"AsTheProjectSays": 1})
    now = dt.datetime.fromtimestamp(NOW_S, dt.UTC)
    return generate_latest(OperatorMetrics(lambda: figures, lambda: now).registry).decode()


def ledger_page() -> str:
    """A page of a ledger that leads and has a budget."""
    kinds = {ObjectKind.POD: 1}
    amounts = BudgetAmounts("queue", "q", "month", "EUR", 2, 1)
    budgets = BudgetFigures((("queue", "q", "month", 0.5),), 0, 1, (amounts,))
    figures = LedgerFigures(1, kinds, kinds, MonthFigures(1, 0, 1), budgets)
    return generate_latest(LedgerMetrics(lambda: figures).registry).decode()


def metrics_of(page: str) -> list[Metric]:
    """Our own metrics of a page."""
    found = []
    for family in text_string_to_metric_families(page):
        labels = {label for one in family.samples for label in one.labels} - {"le"}
        created = family.name.endswith("_created")
        if not family.name.startswith("gpufleet_") or created:
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        unit = next((unit for unit in UNITS if family.name.endswith(f"_{unit}")), "")
        found.append(Metric(name, family.type, unit, sorted(labels), family.documentation))
    return found


def all_metrics() -> list[Metric]:
    """What the pages have, by name."""
    scheduler = generate_latest(scheduler_metrics().registry).decode()
    record = ServingRecord(lambda: NOW_S)
    record.note("a metric", 1.0, served=True)
    apis = generate_latest(record.registry).decode()
    admission = AdmissionRecord(lambda: NOW_S)
    admission.found("GPU006", "warn")
    webhook = generate_latest(admission.registry).decode()
    expander = generate_latest(ExpanderRecord().registry).decode()
    pages = (agent_page(), scheduler, apis, webhook, operator_page(), expander, ledger_page())
    return sorted(one for page in pages for one in metrics_of(page))


def listed() -> list[Metric]:
    """The inventory."""
    return msgspec.yaml.decode(FILE.read_bytes(), type=list[Metric])


if __name__ == "__main__":
    lines = [f"- {msgspec.json.encode(one).decode()}" for one in all_metrics()]
    FILE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
