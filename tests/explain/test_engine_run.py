"""Pods that a disruption budget keeps are named to each pod that waits for them."""

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.engine.event import DisruptionBudgetSet, Event, NodeSet, PodAdded, PodBound
from gpufleet.engine.scheduler import Engine
from gpufleet.explain.engine_run import EngineRun
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import DeviceId, NodeName
from gpufleet.model.labels import LabelSelector
from tests.engine.fleet_builder import node, pod, shape


def test_one_run_without_budgets_answers_for_all_pods_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs are held by less important work, and two pods that are more important wait for one each."""
    machine = node("n", 2)
    devices = [DeviceId(one.id) for one in machine.devices]
    low = [pod(f"low-{number}", shape(1), namespace="d") for number in range(2)]
    high = [pod(f"high-{number}", shape(1), namespace="d", priority=9) for number in range(2)]
    everything: list[Event] = [
        NodeSet(machine),
        DisruptionBudgetSet(DisruptionBudget("keep", "d", LabelSelector(), allowed=0)),
        *(PodBound(one, NodeName("n"), (device,), 0) for one, device in zip(low, devices, strict=True)),
        *map(PodAdded, high),
    ]
    engines: list[Engine] = []
    new_engine = EngineRun._new_engine

    def counted(run: EngineRun) -> Engine:
        engines.append(new_engine(run))
        return engines[-1]

    monkeypatch.setattr(EngineRun, "_new_engine", counted)
    run = EngineRun([everything], Settings(""), 1_000_000_000)
    assert run.evicted == []
    kept = [run._protected(one, None) for one in high]
    assert sorted(uid for uids in kept for uid in uids) == [one.uid for one in low]
    assert len(engines) == 2
