"""Numbers of nodes and times of a rollout."""

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import NodeCount, RolloutSettings, Window


@pytest.mark.parametrize(
    ("count", "nodes", "expected"),
    [
        (NodeCount(3), 100, 3),
        (NodeCount(25, is_percent=True), 100, 25),
        (NodeCount(1, is_percent=True), 5, 1),
        (NodeCount(34, is_percent=True), 3, 2),
        (NodeCount(0, is_percent=True), 5, 0),
        (NodeCount(100, is_percent=True), 7, 7),
    ],
)
def test_a_share_of_nodes_is_rounded_up(count: NodeCount, nodes: int, expected: int) -> None:
    assert count.of(nodes) == expected


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Window("0 22 * * 5", 0), "duration"),
        (lambda: Window("0 22 * * 5", 8 * 86_400), "duration"),
        (lambda: RolloutSettings(canaries=-1), "canaries"),
        (lambda: RolloutSettings(nodes_at_once=NodeCount(0)), "maxParallel"),
        (lambda: RolloutSettings(drain_s=0), "drainTimeout"),
        (lambda: RolloutSettings(change_s=-1), "changeTimeout"),
        (lambda: RolloutSettings(validation_s=0), "validationTimeout"),
        (lambda: RolloutSettings(soak_s=-1), "soak"),
        (lambda: RolloutSettings(checkpoint_s=-1), "checkpointTimeout"),
    ],
)
def test_what_cannot_be_is_refused_by_field(make: object, field: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as refused:
        make()

    assert refused.value.field == field
    assert refused.value.expected


def test_numbers_that_are_no_numbers_of_nodes_are_refused() -> None:
    for value, is_percent in ((-1, False), (101, True)):
        with pytest.raises(InputError, match="not a number of nodes"):
            NodeCount(value, is_percent=is_percent)
