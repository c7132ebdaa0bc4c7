"""A Prometheus of tests: each pod has one value of each signal at all times."""

from array import array
from collections.abc import Iterator

from gpufleet.operator.parking.activity import Signal
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.labels import PodName
from gpufleet.usage.prometheus.window import Window
from tests.operator.parking.measured import QUIET


class Measurements:
    """What pods are said to do; one that is not named is not measured."""

    url = "http://prometheus.test"

    def __init__(self) -> None:
        self.values: dict[PodName, dict[Signal, float]] = {}

    def idle(self, namespace: str, pod: str) -> None:
        """The pod does nothing."""
        self.values[PodName(namespace, pod)] = dict(QUIET)

    def busy(self, namespace: str, pod: str) -> None:
        """The pod computes."""
        self.values[PodName(namespace, pod)] = {**QUIET, Signal.GPU: 0.9}

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """The same value at each point, of each pod that the query names."""
        times = array("q", range(window.first_s, window.last_s + 1, window.step_s))
        found = [
            Series(
                {"namespace": pod.namespace, "pod": pod.name},
                times,
                array("d", [values[Signal(name)]] * len(times)),
            )
            for pod, values in self.values.items()
            if Signal(name) in values and pod.name.replace("-", "\\-") in promql
        ]
        yield PrometheusAnswer(tuple(found))
