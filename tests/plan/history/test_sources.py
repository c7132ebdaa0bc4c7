"""Histories from what was seen of a cluster: snapshots, a ledger, Prometheus. Expected times are by hand."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gpufleet.cli.main import main
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.document import written
from gpufleet.kube import resources
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import written as ledger_lines
from gpufleet.ledger.versions import DeviceState, DevicesVersion, PodVersion
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.plan.history.prometheus_history import work_of_prometheus
from gpufleet.plan.history.recorded_work import demand_of
from gpufleet.plan.history.sources import History, fleet_of, history_of
from gpufleet.replay.trace_tasks import TaskRecord
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.window import Window
from tests.cluster.snapshots.small_snapshots import AT, HOUR_AGO, Fleet
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import Story

HOUR_US = 3_600 * 10**6


def snapshot(folder: Path, after_h: float, fleet: Fleet) -> Path:
    path = folder / f"{after_h}.snapshot"
    at = AT + dt.timedelta(hours=after_h)
    path.write_bytes(b"".join(written(fleet.picture, Settings(identity="test"), at, [])))
    return path


def a_fleet() -> Fleet:
    fleet = Fleet()
    fleet.node("gpu-1")
    return fleet


def started(fleet: Fleet, name: str, at: str, created: str = HOUR_AGO) -> None:
    """The kubelet says since when a pod runs; it was made a while before."""
    pods = fleet.picture.objects[resources.PODS]
    pod = pods["default", name]
    status = msgspec.structs.replace(pod.status, start_time=at)
    metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
    pods["default", name] = msgspec.structs.replace(pod, status=status, metadata=metadata)


def by_name(history: History) -> Mapping[str, TaskRecord]:
    return {task.name: task for task in history.demand.tasks}


def a_series(folder: Path) -> tuple[Path, ...]:
    """At 12:00 a pod runs and a gang waits, which runs from 13:00 on; at 18:30 another of its name runs."""
    first, second, third = a_fleet(), a_fleet(), a_fleet()
    first.pod("service", gpus=1, node="gpu-1", devices="3")
    started(first, "service", "2026-03-01T02:00:00Z")
    for member in range(2):
        first.pod(f"train-{member}", job="train", gang=2)
        second.pod(f"train-{member}", job="train", gang=2, node="gpu-1", devices=str(member))
        started(second, f"train-{member}", "2026-03-01T13:00:00Z")
        third.pod(f"again-{member}", job="train", gang=2, node="gpu-1", devices=str(member))
        started(third, f"again-{member}", "2026-03-01T18:30:00Z", "2026-03-01T18:30:00Z")
    second.pod("service", gpus=1, node="gpu-1", devices="3")
    third.pod("service", gpus=1, node="gpu-1", devices="3")
    return tuple(snapshot(folder, at, fleet) for at, fleet in ((0, first), (2, second), (6.5, third)))


def test_a_series_of_snapshots_tells_when_work_came_ran_and_ended(tmp_path: Path) -> None:
    found = history_of(a_series(tmp_path), (), ())
    tasks = by_name(found)
    assert found.begin_us == int(AT.timestamp()) * 10**6
    # It was there before, and is there at the end.
    assert (tasks["default/service"].created_at_us, tasks["default/service"].duration_us) == (0, None)
    # From 13:00 to the snapshot of 18:30, the first without it.
    assert tasks["default/train-0"].duration_us == 5.5 * HOUR_US
    assert tasks["default/train-0"].created_at_us == 0
    assert tasks["default/train-0"].shape.gpu.count == 1
    # The gang that came when the first one was over is another one.
    assert tasks["default/again-0"].created_at_us == 6.5 * HOUR_US
    names = sorted((gang.name.partition("default/")[2], gang.min_members) for gang in found.demand.gangs)
    assert names == [("train", 2), ("train~2", 2)]


def test_a_ledger_tells_what_ran_on_which_model(tmp_path: Path) -> None:
    log, t = IntervalLog(), 10**15
    granted = tuple(GrantedDevice(DeviceId(f"GPU-{index}"), GrantKind.WHOLE) for index in range(2))
    log.take(
        DevicesVersion("d", 1, t, NodeName("n"), tuple(DeviceState(one.id, "A100-80GB") for one in granted))
    )
    waits = PodVersion(PodUid("u"), 2, t + 10, "team", "train", QueueName("research"))
    log.take(waits)
    runs = msgspec.structs.replace(
        waits, number=3, at_us=t + 60, node=NodeName("n"), bound_us=t + 60, devices=granted, cpu_milli=4000
    )
    log.take(runs)
    log.take(msgspec.structs.replace(runs, number=4, at_us=t + 400, ended_us=t + 360))
    path = tmp_path / "month.ledger"
    path.write_bytes(b"".join(ledger_lines(log, "uid-of-cluster")))
    found = history_of((path,), (), ())
    (task,) = found.demand.tasks
    assert (found.begin_us, task.created_at_us, task.duration_us) == (t + 10, 0, 300)
    assert (task.queue, task.shape.gpu.count, task.shape.gpu.models) == ("research", 2, ("A100-80GB",))


class KubeStateMetrics(Story):
    """Series of kube-state-metrics for two pods, with a point each minute."""

    def openmetrics(self) -> str:
        """The text."""
        pod = 'namespace="lab",pod="%s",uid="%s",container="c",resource="%s"'
        gpu = f"kube_pod_container_resource_requests{{{pod}}}"
        lines = ["# TYPE kube_pod_container_resource_requests gauge"]
        for name, until in (("train", 7200), ("serve", 14400)):
            for at in range(3600, until + 1, 60):
                for resource, value in (("nvidia_com_gpu", 4), ("cpu", 8), ("memory", 2**30)):
                    lines.append(f"{gpu % (name, 'u-' + name, resource)} {value} {at}")
        for metric, name, value, until in (
            ("kube_pod_created", "train", 3500, 7200),
            ("kube_pod_start_time", "train", 3700, 7200),
            ("kube_pod_completion_time", "train", 7000, 7200),
            ("kube_pod_created", "serve", 100, 14400),
            ("kube_pod_start_time", "serve", 160, 14400),
        ):
            if not any(line.startswith(f"# TYPE {metric} ") for line in lines):
                lines.append(f"# TYPE {metric} gauge")
            labels = f'namespace="lab",pod="{name}",uid="u-{name}"'
            begin = 7000 if metric.endswith("completion_time") else 3600
            lines += [f"{metric}{{{labels}}} {value} {at}" for at in range(begin, until + 1, 60)]
        return "\n".join([*_in_order(lines), "# EOF\n"])


def _in_order(lines: list[str]) -> list[str]:
    """Series of one metric stand together behind its type."""
    found: dict[str, list[str]] = {}
    for line in lines:
        metric = line.split()[2] if line.startswith("#") else line.partition("{")[0]
        found.setdefault(metric, []).append(line)
    return [
        line for metric in found.values() for line in sorted(metric, key=lambda one: not one.startswith("#"))
    ]


def test_a_prometheus_tells_of_pods_with_whole_gpus(tmp_path: Path) -> None:
    with prometheus(tmp_path, KubeStateMetrics()) as url:
        work = work_of_prometheus(Prometheus(read_access(url)), Window(3600, 14400, 300))
    tasks = {task.name: task for task in demand_of(work).tasks}
    train, serve = tasks["lab/train"], tasks["lab/serve"]
    assert train.duration_us == (7000 - 3700) * 10**6
    assert (serve.created_at_us, serve.duration_us, serve.queue) == (0, None, "lab")
    assert (train.shape.gpu.count, train.shape.resources.cpu_milli, train.shape.resources.memory_bytes) == (
        4,
        8000,
        2**30,
    )


def test_the_fleet_of_a_snapshot_is_planned_for_and_one_snapshot_is_no_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    series = a_series(tmp_path)
    assert [(node.name, len(node.devices)) for node in fleet_of(series[0])] == [("gpu-1", 4)]
    with pytest.raises(InputError, match="is no series"):
        history_of(series[:1], (), ())
    options = [word for path in series for word in ("--history", str(path))]
    assert main(["plan", *options, "--nodes", str(series[0]), "--wait", "p100=1h"]) == 0
    assert "holds the service level" in capsys.readouterr().out
    assert main(["plan", *options, "--prometheus", "http://127.0.0.1:1", "--wait", "p100=1h"]) == 2
    assert "either --history FILE or --prometheus URL" in capsys.readouterr().err
