"""The flags about automatic moves, and what a pod says of whom it came in place of."""

import pytest

from gpufleet.kube.codec.moved import Moved, moves_before, read_moved, write_moved
from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.pod import Pod, PodSpec
from gpufleet.model.defragmentation import DayWindow, DefragmentationRules
from gpufleet.model.model_errors import InputError
from gpufleet.scheduler.defragmentation_flags import rules_of

HOUR_US = 3_600_000_000


def test_nobody_is_moved_unless_a_flag_says_so() -> None:
    assert rules_of(None, None, None, 10, 100, None, ()) is None


def test_flags_are_read_in_their_units() -> None:
    found = rules_of("5m", "1h", "22:00-05:30", 3, 30, 2, ("team",))
    window = DayWindow(22 * HOUR_US, 5 * HOUR_US + HOUR_US // 2)
    assert found == DefragmentationRules(300_000_000, HOUR_US, window, 3, 30, 120_000, ("team",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("soon", None, None), "--defragment-to-start"),
        ((None, "10s", None), "too often"),
        ((None, "1h", "25:00-26:00"), "not a time of the day"),
        (("5m", None, "01:00-02:00"), "nothing is done in it"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_flag(
    flags: tuple[str | None, str | None, str | None], problem: str
) -> None:
    with pytest.raises(InputError) as refused:
        rules_of(*flags, 10, 100, None, ())
    assert problem in str(refused.value)


def of(text: str) -> Pod:
    """A pod that says this of itself."""
    return Pod(metadata=PodMetadata(annotations={"gpufleet.io/moved": text}), spec=PodSpec(containers=()))


def test_what_a_pod_says_is_read_as_it_was_written() -> None:
    moved = Moved("default/a", "n0", 1_800_000_000_000_000, 122.5, "pod default/large")
    assert read_moved(of(write_moved(moved))) == moved
    assert moves_before([of(write_moved(moved)), of("")]) == ((1_800_000_000_000_000, 122_500),)


AGO = '{"pod":"a","node":"n","atUs":-1,"lostGpuS":1}'


@pytest.mark.parametrize("text", ["{}", "[" * 2000, '{"pod":1}', "\udcff", AGO])
def test_what_makes_no_sense_says_nothing(text: str) -> None:
    assert read_moved(of(text)) is None
