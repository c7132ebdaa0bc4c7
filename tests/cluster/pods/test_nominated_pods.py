"""A nomination is read from its parts only as a whole, and only as it was written."""

from random import Random

import pytest

from gpufleet.cluster.pods.nominated_pods import joined, parts_of, recalled, says
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from tests.engine.effort import seeds

QUEUE = QueueName("default")
GANG = GangName("default/g")


def nomination(number: int, pods: int, waits_for: int, node: str = "n") -> KeptPlaces:
    """A gang of so many pods that waits for so many others."""
    places = tuple(
        ReservedPlace(PodUid(f"p{one}"), NodeName(node), (DeviceId(f"GPU-{one}"),)) for one in range(pods)
    )
    return KeptPlaces(GANG, QUEUE, number, places, tuple(PodUid(f"v{one}") for one in range(waits_for)))


@pytest.mark.parametrize("seed", seeds(50))
def test_all_parts_together_say_what_was_written(seed: int) -> None:
    chance = Random(seed)
    one = nomination(chance.randint(0, 9), chance.randint(1, 9), chance.randint(0, 20))
    parts = list(parts_of(one).items())
    chance.shuffle(parts)
    assert joined(GANG, QUEUE, dict(parts)) == one


@pytest.mark.parametrize("seed", seeds(50))
def test_a_part_that_lacks_or_is_of_another_nomination_leaves_nothing(seed: int) -> None:
    chance = Random(seed)
    pods = chance.randint(2, 6)
    parts, others = parts_of(nomination(1, pods, 5)), parts_of(nomination(2, pods, 6, node="m"))
    lost = PodUid(f"p{chance.randrange(pods)}")
    assert joined(GANG, QUEUE, {uid: part for uid, part in parts.items() if uid != lost}) is None
    assert joined(GANG, QUEUE, {**parts, lost: others[lost]}) is None
    assert joined(GANG, QUEUE, {**parts, lost: parts[lost]._replace(node=NodeName("m"))}) is None
    assert joined(GANG, QUEUE, {**parts, lost: parts[lost]._replace(waits_for=(PodUid("v9"),))}) is None
    assert joined(GangName("default/other"), QUEUE, parts) is None


def test_workloads_are_read_side_by_side() -> None:
    alone = KeptPlaces(PodUid("a"), QUEUE, 3, (ReservedPlace(PodUid("a"), NodeName("n")),), (PodUid("v0"),))
    gang = nomination(4, 2, 3)
    parts = [(alone.holder, QUEUE, uid, part) for uid, part in parts_of(alone).items()]
    parts += [(gang.holder, QUEUE, uid, part) for uid, part in parts_of(gang).items()]
    assert recalled(parts) == [alone, gang]
    assert recalled(parts[:-1]) == [alone]


def test_a_record_holds_while_fewer_pods_are_waited_for_and_for_no_other_place() -> None:
    written = nomination(1, 2, 3)
    assert says(written, nomination(9, 2, 2))
    assert not says(written, nomination(1, 2, 4))
    assert not says(written, nomination(1, 2, 3, node="m"))
    assert not says(written, nomination(1, 1, 3))
    assert not says(None, written)
