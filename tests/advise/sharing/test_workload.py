"""Figures of a workload, what counts as one replica, and how often neighbours want too much."""

from fractions import Fraction

import pytest

from gpufleet.advise.sharing.workload import percentile, risk, split_by_gpus, workloads_of
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import Sample, SampleKind
from tests.advise.sharing.measured import busy, workload


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentile(range(20, 0, -1), 95) == 19
    assert percentile([15, 20, 35, 40, 50], 30) == 20
    assert percentile([7], 50) == 7


def test_of_an_instant_the_highest_use_counts() -> None:
    rows = [(0, 100), (59, 300), (60, 200)]
    found = workloads_of((Sample("w", "p", at, use, 1, 1, "T4") for at, use in rows), 60)[0]
    assert found.replicas[0].use_milli == {0: 300, 1: 200}
    assert found.mean_milli == 250


def test_pods_that_never_ran_together_are_one() -> None:
    runs = [("mon", 0), ("mon", 60), ("tue", 120), ("other", 60), ("wed", 180)]
    samples = [Sample("nightly", pod, at, 500, 10, 1, "T4") for pod, at in runs]
    found = workloads_of(samples, 60)[0]
    assert [replica.name for replica in found.replicas] == ["mon", "other"]
    assert found.gpus_today == 2


def test_risk_is_the_part_of_instants_above_the_whole() -> None:
    one, other = workload("w", [60, 60, 0, 100], [50, 40, 90, 0]).replicas
    # Sums: 110, 100, 90, 100.
    assert risk([one, other]) == Fraction(1, 4)
    assert risk([one], 500) == Fraction(3, 4)


def test_neighbours_in_turn_are_no_risk_although_their_peaks_are() -> None:
    assert risk(workload("w", busy(80, 0, 1), busy(80, 2, 3)).replicas) == 0
    assert risk(workload("w", busy(80, 0, 1), busy(80, 1, 2)).replicas) == Fraction(1, 20)


def test_a_workload_is_one_thing() -> None:
    samples = [
        Sample("w", "p", 0, 1, 1, 1, "T4", kind=kind) for kind in (SampleKind.BATCH, SampleKind.NOTEBOOK)
    ]
    with pytest.raises(InputError, match=r"workload w, kind: differs within the workload"):
        workloads_of(samples, 60)
    with pytest.raises(InputError, match="the GPU on which this was measured"):
        workloads_of([Sample("w", "p", 0, 1, 1, 1)], 60)


def names_apart(*facts: tuple[str, str, int]) -> list[str]:
    """The workloads of samples with these names, models and numbers of GPUs."""
    found = split_by_gpus([Sample(name, "p", 0, 1, 1, gpus, model) for name, model, gpus in facts])
    return [one.workload for one in found]


def test_unlike_pods_of_one_workload_are_told_apart() -> None:
    assert names_apart(("w", "T4", 1), ("w", "A30", 1), ("v", "T4", 1)) == ["w on T4", "w on A30", "v"]
    assert names_apart(("w", "T4", 1), ("w", "T4", 2)) == ["w with 1 GPU", "w with 2 GPUs"]
    assert names_apart(("w", "T4", 1), ("w", "A30", 2)) == ["w on T4 with 1 GPU", "w on A30 with 2 GPUs"]


def test_namesakes_of_two_namespaces_are_two_workloads() -> None:
    samples = [Sample("w", "p", 0, 1, 1, 1, "T4", namespace=namespace) for namespace in ("a", "b")]
    assert [one.name for one in workloads_of(samples, 60)] == ["a/w", "b/w"]
