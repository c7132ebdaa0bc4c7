"""What a real Prometheus answers to the questions of parking, and what follows for each pod."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.operator.parking.activity import Activity, Judgement, Sessions, Signal, Steps, judge
from gpufleet.operator.parking.measuring import measure
from gpufleet.usage.prometheus.access import read_access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.labels import PodName
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import BEGIN_S, Story

AGENT = {"job": "agent", "instance": "10.0.0.1:9400"}
MINUTES = 60
NOW_US = (BEGIN_S + (MINUTES - 1) * 60) * 10**6
STEPS = Steps(NOW_US // 10**6, 60, 40)
HALF_AN_HOUR_US = 30 * 60 * 10**6


class Work(Story):
    """Pods with a GPU each, which do nothing but what is said."""

    def pod(
        self,
        name: str,
        *,
        gpu: float = 0.0,
        memory_step: float = 0.0,
        processors: float = 0.01,
        bytes_s: float = 100.0,
        requests: float | None = None,
        exported: bool = False,
    ) -> None:
        """One pod; ``memory_step`` is how much its memory grows each minute."""
        labels = {"namespace": "team", "pod": name, **AGENT}
        own = {"exported_namespace": "team", "exported_pod": name, "pod": "agent-x", "namespace": "fleet"}
        of_agent = {**AGENT, **own} if exported else labels
        self.tell("gpufleet_pod_gpu_used_ratio", {**of_agent, "gpu": "0"}, lambda _: gpu)
        memory = lambda minute: 4e9 + memory_step * minute  # noqa: E731
        self.tell("gpufleet_pod_gpu_memory_used_bytes", {**of_agent, "gpu": "0"}, memory)
        if processors >= 0:
            container = {**labels, "container": "main", "id": "/kubepods/x"}
            cpu = "container_cpu_usage_seconds_total"
            self.tell(cpu, container, lambda minute: processors * 60 * minute)
            # cAdvisor tells the whole pod too, which must not count a second time.
            self.tell(cpu, {**labels, "container": "", "id": "/kubepods"}, lambda minute: 60 * minute)
        self.tell(
            "container_network_receive_bytes_total",
            {**labels, "interface": "eth0"},
            lambda minute: bytes_s * 60 * minute,
        )
        if requests is not None:
            answered = {**labels, "finished_reason": "stop"}
            self.tell("vllm:request_success_total", answered, lambda minute: requests * minute)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that knows the pods."""
    work = Work(MINUTES)
    work.pod("idle-0")
    work.pod("exported-0", exported=True)
    work.pod("computes-0", gpu=0.4)
    work.pod("prepares-0", processors=0.9)
    work.pod("loads-0", bytes_s=1e7)
    work.pod("grows-0", memory_step=1e9)
    work.pod("serves-0", requests=2.0)
    work.pod("asked-for-nothing-0", requests=0.0)
    work.pod("without-cadvisor-0", processors=-1.0)
    folder: Path = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, work) as address:
        yield address


def judged(url: str, name: str) -> Judgement:
    """What follows for one pod, with a rule of half an hour."""
    pod = PodName("team", name)
    found = measure(Prometheus(read_access(url)), {pod: 0}, STEPS)
    return judge([found[pod]], Sessions(), STEPS, HALF_AN_HOUR_US, NOW_US)


@pytest.mark.parametrize("name", ["idle-0", "exported-0", "asked-for-nothing-0"])
def test_a_pod_that_does_nothing_is_idle_however_its_series_name_it(url: str, name: str) -> None:
    assert judged(url, name).activity is Activity.IDLE


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("computes-0", Signal.GPU),
        ("prepares-0", Signal.CPU),
        ("loads-0", Signal.NETWORK),
        ("grows-0", Signal.GPU_MEMORY),
        ("serves-0", Signal.REQUESTS),
    ],
)
def test_each_signal_alone_shows_work(url: str, name: str, signal: Signal) -> None:
    found = judged(url, name)
    assert (found.activity, found.reason) == (Activity.WORKING, f"{name}: {signal.value}")


def test_without_cadvisor_nothing_is_idle(url: str) -> None:
    found = judged(url, "without-cadvisor-0")
    assert (found.activity, found.reason) == (
        Activity.UNKNOWN,
        "without-cadvisor-0: processor use is not known",
    )


def test_a_pod_that_no_series_names_is_unknown(url: str) -> None:
    assert judged(url, "no-such-0").activity is Activity.UNKNOWN
