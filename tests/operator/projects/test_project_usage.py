"""GPU-hours of a project from measurements, with the hours of which nothing is known."""

from array import array
from collections.abc import Iterator, Mapping

from gpufleet.operator.projects.project_usage import (
    NO_PROMETHEUS,
    NamespaceUsage,
    project_usage,
    unknown_usage,
)
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.window import Window

HOUR_S = 3600
END_S = 1_800_000_000


class Measured:
    """A server that has measured so many GPUs in each namespace at each point, and its agents at some."""

    url = "http://prometheus"

    def __init__(self, gpus: Mapping[str, float], agents_part: float = 1.0, label: str = "namespace") -> None:
        self._gpus, self._agents_part, self._label = gpus, agents_part, label

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """As many points as the window has, of agents a part of them."""
        times = list(range(window.first_s, window.last_s + 1, window.step_s))
        if name == "agents":
            times = times[: int(len(times) * self._agents_part)]
            yield PrometheusAnswer((Series({}, array("q", times), array("d", [1.0] * len(times))),))
            return
        assert all(namespace in promql for namespace in self._gpus)
        yield PrometheusAnswer(
            tuple(
                Series({self._label: namespace}, array("q", times), array("d", [gpus] * len(times)))
                for namespace, gpus in self._gpus.items()
            )
        )


def test_gpu_hours_are_gpus_times_hours() -> None:
    found = project_usage(Measured({"a": 2.0, "b": 0.5}), "vision", ("a", "b", "idle"), END_S, 10 * HOUR_S)
    assert found.usage == (
        NamespaceUsage("a", 20.0),
        NamespaceUsage("b", 5.0),
        NamespaceUsage("idle", 0.0),
    )
    assert (found.hours, found.measured_hours, found.notes) == (10.0, 10.0, ())


def test_hours_without_agents_are_told_and_not_taken_for_idle() -> None:
    found = project_usage(Measured({"a": 1.0}, agents_part=0.5), "vision", ("a",), END_S, 10 * HOUR_S)
    assert (found.hours, found.measured_hours) == (10.0, 5.0)
    assert found.notes == ("5.0 of 10.0 hours were not measured: the GPU-hours are a lower bound",)


def test_the_namespace_of_a_pod_is_not_that_of_the_agent() -> None:
    source = Measured({"a": 1.0}, label="exported_namespace")
    found = project_usage(source, "vision", ("a",), END_S, HOUR_S)
    assert found.usage == (NamespaceUsage("a", 1.0),)


def test_without_a_prometheus_nothing_is_known() -> None:
    found = unknown_usage("vision", ("a",))
    assert found.usage is None
    assert found.measured_hours is None
    assert found.notes == (NO_PROMETHEUS,)
