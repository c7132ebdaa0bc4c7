"""Samples of agents become use of nodes and pods; what a device does not tell is unknown."""

import pytest

from gpufleet.model.model_errors import WorldError
from gpufleet.overview.rows.use import PodUse, pod_use
from gpufleet.usage.agent_use import NAMES, NodeUse, node_uses
from gpufleet.usage.metrics_page import SeriesValue, values_on

PAGE = """\
# HELP gpufleet_gpu_busy_ratio Part of the time.
# TYPE gpufleet_gpu_busy_ratio gauge
gpufleet_gpu_busy_ratio{node="n",gpu="0",uuid="A"} 0.5
gpufleet_gpu_power_watts{node="n",gpu="0",uuid="A"} 300
gpufleet_gpu_power_watts{node="n",gpu="1",uuid="B"} 100
gpufleet_gpu_memory_used_bytes{node="n",gpu="0",uuid="A",mig_profile="1g.10gb",mig_id="3"} 7
gpufleet_pod_gpu_held_ratio{node="n",gpu="0",uuid="A",mode="exclusive",namespace="t",pod="p"} 1
gpufleet_pod_gpu_used_ratio{node="n",gpu="0",uuid="A",mode="exclusive",namespace="t",pod="p"} 0.5
gpufleet_pod_gpu_memory_used_bytes{node="n",gpu="0",uuid="A",mode="exclusive",namespace="t",pod="p"} 2e9
gpufleet_pod_gpu_held_ratio{node="n",gpu="1",uuid="B",mode="fraction",namespace="t",pod="q"} 0.25
gpufleet_pod_gpu_energy_joules_total{node="n",gpu="1",uuid="B",mode="fraction",namespace="t",pod="q"} 1000
gpufleet_gpu_temperature_celsius{node="n",gpu="0",uuid="A"} NaN
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="A"} 50
"""


def use_of(page: str, at_s: float = 0.0) -> NodeUse:
    return node_uses(values_on(page, NAMES), at_s)["n"]


def test_a_page_becomes_the_use_of_its_cards_and_pods() -> None:
    use = use_of(PAGE)
    assert (use.cards["A"].busy_ratio, use.cards["A"].power_watts) == (0.5, 300.0)
    assert pod_use(("t", "p"), use) == PodUse(0.5, 2e9, 300.0)


def test_what_is_no_number_and_what_an_instance_tells_is_not_the_cards() -> None:
    card = use_of(PAGE).cards["A"]
    assert (card.temperature_celsius, card.memory_used_bytes) == (None, None)


def test_the_power_of_a_part_of_a_card_follows_from_two_measurements() -> None:
    before, later = use_of(PAGE), use_of(PAGE.replace("} 1000", "} 1500"), 10.0)
    assert pod_use(("t", "q"), later).power_watts is None
    assert pod_use(("t", "q"), later, before).power_watts == 50.0


def test_a_counter_that_went_back_gives_no_power() -> None:
    assert (
        pod_use(("t", "q"), use_of(PAGE, 10.0), use_of(PAGE.replace("} 1000", "} 1500"))).power_watts is None
    )


def test_a_pod_of_which_one_card_does_not_tell_is_unknown_as_a_whole() -> None:
    more = 'gpufleet_pod_gpu_held_ratio{node="n",uuid="C",namespace="t",pod="p"} 1\n'
    assert pod_use(("t", "p"), use_of(PAGE + more)) == PodUse(None, None, None)


def test_a_scrape_that_renames_labels_is_read_alike() -> None:
    labels = {
        "uuid": "A",
        "namespace": "monitoring",
        "pod": "agent",
        "exported_namespace": "t",
        "exported_pod": "p",
    }
    uses = node_uses([SeriesValue("gpufleet_pod_gpu_used_ratio", {**labels, "node": "n"}, 0.5)], 0.0)
    assert pod_use(("t", "p"), uses["n"]).used_ratio == 0.5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 7.0, 97.0])
def test_a_value_that_no_card_can_have_is_unknown_and_not_shown(value: float) -> None:
    labels = {"node": "n", "uuid": "A", "namespace": "t", "pod": "p"}
    samples = [
        SeriesValue("gpufleet_pod_gpu_used_ratio", labels, value),
        SeriesValue("gpufleet_gpu_busy_ratio", labels, value),
        SeriesValue("gpufleet_gpu_temperature_celsius", labels, 41.0),
    ]
    use = node_uses(samples, 0.0)["n"]
    assert pod_use(("t", "p"), use).used_ratio is None
    assert (use.cards["A"].busy_ratio, use.cards["A"].temperature_celsius) == (None, 41.0)


@pytest.mark.parametrize("page", ["", "<html>no</html>", "DCGM_FI_DEV_GPU_UTIL 5\n"])
def test_a_page_of_something_else_has_no_samples(page: str) -> None:
    assert list(values_on(page, NAMES)) == []


def test_a_page_that_lies_is_refused_in_a_sentence() -> None:
    with pytest.raises(WorldError, match="not a page of metrics"):
        list(values_on('gpufleet_gpu_busy_ratio{node="n" 0.5 x y\n', NAMES))
