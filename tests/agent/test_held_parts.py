"""What a pod holds, in parts of the card, under each way of sharing."""

import pytest

from gpufleet.agent.holders.held_parts import HeldPart, held_parts
from gpufleet.agent.state.node_state import Held, NodeGpus, NodePod
from gpufleet.devices.sharing.plan import Fractions, Mig, Mode, Mps, TimeSlice
from tests.agent.exporter.builders import CUT_H100, granted_share, holds, node_of, pod

H100 = "model: H100-80GB"


def held_by(gpus: NodeGpus, *given: Held, pods: tuple[NodePod, ...] = ()) -> list[HeldPart]:
    known = {one.uid: one for one in pods}
    return [one for own in held_parts(gpus, known, given).values() for one in own]


def test_a_whole_card_is_all_of_it() -> None:
    gpus = node_of(H100)
    (one,) = held_by(gpus, holds("a", gpus.gpus[0].uuid))
    assert (one.card_ratio, one.mode, one.shared, one.replica) == (1.0, "exclusive", False, "")
    assert one.memory_mib == gpus.gpus[0].usable_mib


@pytest.mark.parametrize(
    ("mode", "ratio", "mode_name"),
    [(TimeSlice(4), 0.25, "time-slice"), (Mps(3, 20000, 33), 0.33, "mps")],
)
def test_a_replica_is_its_part(mode: Mode, ratio: float, mode_name: str) -> None:
    gpus = node_of(H100, modes={0: mode})
    (one,) = held_by(gpus, holds("a", f"{gpus.gpus[0].uuid}::2"))
    assert (one.card_ratio, one.mode, one.shared, one.replica) == (ratio, mode_name, True, "2")


def test_memory_of_replicas_is_an_equal_part_and_of_mps_the_limit() -> None:
    sliced, served = node_of(H100, modes={0: TimeSlice(4)}), node_of(H100, modes={0: Mps(3, 20000, 33)})
    (of_slice,) = held_by(sliced, holds("a", f"{sliced.gpus[0].uuid}::0"))
    (of_client,) = held_by(served, holds("a", f"{served.gpus[0].uuid}::0"))
    assert of_slice.memory_mib == (sliced.gpus[0].usable_mib or 0) // 4
    assert of_client.memory_mib == 20000


def test_an_instance_is_its_slices_of_seven() -> None:
    gpus = node_of(CUT_H100)
    small, large = gpus.gpus[0].facts.mig
    found = held_by(gpus, holds("a", small.uuid), holds("b", large.uuid))
    assert [(one.instance, one.card_ratio) for one in found] == [(small.uuid, 1 / 7), (large.uuid, 3 / 7)]
    assert [one.memory_mib for one in found] == [small.memory_mib, large.memory_mib]


def test_replicas_of_an_instance_divide_it() -> None:
    gpus = node_of(CUT_H100, modes={0: Mig(None, {"3g.40gb": 2})})
    large = gpus.gpus[0].facts.mig[1]
    (one,) = held_by(gpus, holds("a", f"{large.uuid}::1"))
    assert one.card_ratio == pytest.approx(3 / 14)
    assert one.shared


def test_a_share_is_what_its_grant_says() -> None:
    gpus = node_of(H100, modes={0: Fractions(10)})
    owner = pod("a", grant=granted_share(gpus.gpus[0].uuid, 300, 24000))
    given = holds("a", "slot-7", resource="gpufleet.io/gpu-share")
    (one,) = held_by(gpus, given, pods=(owner,))
    assert (one.card_ratio, one.memory_mib, one.mode, one.shared) == (0.3, 24000, "fraction", True)
    assert held_by(gpus, given) == []


def test_pods_that_ended_and_foreign_devices_hold_nothing() -> None:
    gpus = node_of(H100)
    assert held_by(gpus, holds("a", gpus.gpus[0].uuid), pods=(pod("a", finished=True),)) == []
    assert held_by(gpus, holds("a", "nic-1", resource="example.com/nic")) == []


def test_the_container_that_starts_last_stands_last() -> None:
    gpus = node_of(H100)
    uuid = gpus.gpus[0].uuid
    owner = pod("a", requests={"prepare": {}, "train": {}})
    given = (holds("a", uuid, container="train"), holds("a", uuid, container="prepare"))
    assert [one.container for one in held_by(gpus, *given, pods=(owner,))] == ["prepare", "train"]
