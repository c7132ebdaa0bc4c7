"""Whose use it is, by hand: alone by device, shared by process, cut by slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.agent.exporter.usage import DeviceUse, PodOf, Quality, gpu_use
from gpufleet.agent.holders.held_parts import held_parts
from gpufleet.agent.state.node_state import GpuReading, Held, NodeGpus
from gpufleet.devices.sample import Activity, ProcessUse
from gpufleet.devices.sharing.plan import Mig, Mps, TimeSlice
from tests.agent.exporter.builders import CUT_H100, holds, memory, node_of, process, sample

H100 = "model: H100-80GB"
OWNERS = {1: "uid-a", 2: "uid-b", 3: "uid-a"}


def of_pods(pid: int) -> str | None:
    """Processes 1 and 3 are of pod a, 2 is of pod b, all others the machine's."""
    return OWNERS.get(pid)


def uses(
    gpus: NodeGpus, reading: GpuReading | None, *given_units: Held, pod_of: PodOf | None = of_pods
) -> tuple[DeviceUse, ...]:
    gpu = gpus.gpus[0]
    return gpu_use(gpu, reading, held_parts(gpus, {}, given_units).get(gpu.uuid, ()), pod_of)


def sliced() -> tuple[NodeGpus, Held, Held]:
    """A card of four replicas, of which a and b hold one each."""
    gpus = node_of(H100, modes={0: TimeSlice(4)})
    uuid = gpus.gpus[0].uuid
    return gpus, holds("a", f"{uuid}::0"), holds("b", f"{uuid}::1")


def test_whoever_holds_a_card_alone_uses_what_is_used_there() -> None:
    gpus = node_of(H100)
    reading = GpuReading(sample(memory=memory(3000), gpu_busy_pct=40))
    (use,) = uses(gpus, reading, holds("a", gpus.gpus[0].uuid), pod_of=None)
    (only,) = use.pods
    assert (only.memory_used_mib, only.used_ratio, only.energy_ratio) == (3000, 0.4, 1.0)
    assert (use.memory, use.compute, use.energy) == (Quality.DEVICE,) * 3


def test_the_hardwares_own_counters_go_before_the_drivers_samples() -> None:
    gpus = node_of(H100)
    reading = GpuReading(sample(gpu_busy_pct=40, activity=Activity(graphics_engine_ratio=0.37)))
    (use,) = uses(gpus, reading, holds("a", gpus.gpus[0].uuid))
    assert use.pods[0].used_ratio == 0.37


def test_two_containers_of_a_pod_with_one_card_are_one_holder() -> None:
    gpus = node_of(H100)
    uuid = gpus.gpus[0].uuid
    (use,) = uses(
        gpus, GpuReading(sample(gpu_busy_pct=1)), holds("a", uuid), holds("a", uuid, container="side")
    )
    assert use.alone
    assert use.pods[0].card_ratio == 1.0


def test_a_shared_card_is_divided_by_its_processes() -> None:
    gpus, a, b = sliced()
    processes = (process(1, 1000, 30), process(3, 500, 0), process(2, 2000, 10), process(9, 100, 20))
    reading = GpuReading(sample(memory=memory(3600), gpu_busy_pct=60), processes=processes)
    (use,) = uses(gpus, reading, a, b)
    # 60 % of the card's time by 30 : 10 : 20 is 30, 10 and 20 %; each holds a quarter of the idle 40 %.
    of_a, of_b = use.pods
    assert (of_a.memory_used_mib, of_b.memory_used_mib) == (1500, 2000)
    assert [of_a.used_ratio, of_b.used_ratio] == pytest.approx([0.3, 0.1])
    assert [of_a.energy_ratio, of_b.energy_ratio] == pytest.approx([0.4, 0.2])
    assert (use.memory, use.compute, use.energy) == (Quality.PROCESS,) * 3


def test_a_pod_without_a_process_uses_nothing() -> None:
    gpus, a, b = sliced()
    reading = GpuReading(sample(gpu_busy_pct=50), processes=(process(1, 1000, 50),))
    of_b = uses(gpus, reading, a, b)[0].pods[1]
    assert (of_b.memory_used_mib, of_b.used_ratio) == (0, 0.0)


@pytest.mark.parametrize(("seen", "looked_at"), [(None, True), ((), False)])
def test_a_shared_card_whose_processes_are_not_seen_tells_nothing_of_pods(
    seen: tuple[ProcessUse, ...] | None, looked_at: bool
) -> None:
    gpus, a, b = sliced()
    reading = GpuReading(sample(memory=memory(3600), gpu_busy_pct=60), processes=seen)
    (use,) = uses(gpus, reading, a, b, pod_of=of_pods if looked_at else None)
    for one in use.pods:
        assert (one.memory_used_mib, one.used_ratio, one.energy_ratio) == (None, None, None)
        assert one.card_ratio == 0.25
    assert (use.memory, use.compute, use.energy) == (Quality.NONE,) * 3


def test_a_pod_holds_at_most_the_card() -> None:
    gpus = node_of(H100, modes={0: Mps(3, 10_000, 40)})
    units = [f"{gpus.gpus[0].uuid}::{number}" for number in range(3)]
    assert uses(gpus, None, holds("a", *units))[0].pods[0].card_ratio == 1.0


def test_one_holder_of_a_shared_card_is_not_alone() -> None:
    gpus, a, _ = sliced()
    reading = GpuReading(sample(memory=memory(3600), gpu_busy_pct=60))
    assert uses(gpus, reading, a)[0].pods[0].memory_used_mib is None


def test_a_process_of_unknown_use_makes_the_division_unknown_and_not_wrong() -> None:
    gpus, a, b = sliced()
    processes = (process(1, None, None), process(2, 2000, 10))
    (use,) = uses(gpus, GpuReading(sample(gpu_busy_pct=60), processes=processes), a, b)
    assert [one.used_ratio for one in use.pods] == [None, None]
    assert [one.memory_used_mib for one in use.pods] == [None, 2000]
    assert (use.compute, use.energy) == (Quality.NONE, Quality.NONE)


def test_a_pod_whose_uid_is_not_known_yet_has_no_processes_that_could_be_told() -> None:
    gpus, a, _ = sliced()
    unknown = Held("team-a", "new", "main", "nvidia.com/gpu", (f"{gpus.gpus[0].uuid}::3",))
    (use,) = uses(gpus, GpuReading(sample(gpu_busy_pct=60), processes=(process(1, 10, 60),)), a, unknown)
    assert use.pods[1].memory_used_mib is None
    assert use.energy is Quality.NONE


def test_an_instance_held_alone_is_told_by_its_own_readings() -> None:
    gpus = node_of(CUT_H100)
    small, large = gpus.gpus[0].facts.mig
    instances = {
        small.uuid: sample(memory=memory(700), activity=Activity(graphics_engine_ratio=0.7)),
        large.uuid: sample(memory=memory(9000), activity=Activity(graphics_engine_ratio=0.0)),
    }
    of_small, of_large = uses(
        gpus, GpuReading(sample(), instances), holds("a", small.uuid), holds("b", large.uuid)
    )
    assert (of_small.pods[0].memory_used_mib, of_small.pods[0].used_ratio) == (700, 0.7)
    # One slice of seven computes 70 % of the time, that is a tenth of the card; 90 % of it idles by slices.
    assert of_small.pods[0].energy_ratio == pytest.approx(0.1 + 0.9 / 7)
    assert of_large.pods[0].energy_ratio == pytest.approx(0.9 * 3 / 7)
    assert of_small.energy is Quality.DEVICE


def test_instances_that_tell_no_activity_divide_energy_by_slices() -> None:
    gpus = node_of(CUT_H100)
    small, large = gpus.gpus[0].facts.mig
    instances = {small.uuid: sample(memory=memory(1)), large.uuid: sample(memory=memory(2))}
    found = uses(gpus, GpuReading(sample(), instances), holds("a", small.uuid), holds("b", large.uuid))
    assert [one.pods[0].energy_ratio for one in found] == [pytest.approx(1 / 7), pytest.approx(3 / 7)]
    assert [(one.compute, one.energy) for one in found] == [(Quality.NONE, Quality.SLICES)] * 2


def test_replicas_of_an_instance_are_told_apart_by_their_processes_on_it() -> None:
    gpus = node_of(CUT_H100, modes={0: Mig(None, {"3g.40gb": 2})})
    small, large = gpus.gpus[0].facts.mig
    processes = (process(1, 100, None, large.uuid), process(1, 7, None, small.uuid))
    (use,) = uses(
        gpus,
        GpuReading(sample(), {large.uuid: sample(memory=memory(100))}, processes),
        holds("a", f"{large.uuid}::0"),
        holds("b", f"{large.uuid}::1"),
    )
    assert [one.memory_used_mib for one in use.pods] == [100, 0]
    assert (use.memory, use.compute, use.energy) == (Quality.PROCESS, Quality.NONE, Quality.NONE)


def test_without_a_fresh_reading_only_what_is_held_is_told() -> None:
    gpus = node_of(H100)
    (use,) = uses(gpus, None, holds("a", gpus.gpus[0].uuid))
    (only,) = use.pods
    assert (only.card_ratio, only.memory_used_mib, only.used_ratio) == (1.0, None, None)
    assert (use.memory, use.compute) == (Quality.NONE, Quality.NONE)


BUSY = st.none() | st.integers(0, 100)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 100)), max_size=12), BUSY)
def test_the_parts_of_a_shared_card_never_exceed_it(
    busy: list[tuple[int, int]], card_pct: int | None
) -> None:
    gpus, a, b = sliced()
    processes = tuple(process(pid, 1, pct) for pid, pct in busy)
    (use,) = uses(gpus, GpuReading(sample(gpu_busy_pct=card_pct), processes=processes), a, b)
    computed = [one.used_ratio for one in use.pods]
    energy = [one.energy_ratio for one in use.pods]
    assert all(ratio is not None and 0 <= ratio <= 1 for ratio in computed + energy)
    whole = 1.0 if card_pct is None else card_pct / 100
    assert sum(ratio or 0 for ratio in computed) <= whole + 1e-9
    assert sum(ratio or 0 for ratio in energy) <= 1 + 1e-9
