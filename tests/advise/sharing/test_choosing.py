"""Which sharing a workload gets by itself: each line of the table of practice, and its borders."""

import pytest

from gpufleet.advise.sharing.choosing import Mode, choose
from gpufleet.advise.sharing.workload import SharingWorkload
from gpufleet.usage.samples import SampleKind
from tests.advise.sharing.measured import CARD_MIB, busy, workload


@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        (workload("several GPUs", busy(10), gpus=4), Mode.WHOLE),
        (workload("distributed", busy(10), kind=SampleKind.DISTRIBUTED), Mode.WHOLE),
        (workload("latency", busy(10), kind=SampleKind.LATENCY), Mode.WHOLE),
        (workload("tenant", busy(10), strict=True), Mode.MIG),
        (workload("busy", busy(50)), Mode.WHOLE),
        (workload("not so busy", busy(49)), Mode.FRACTION),
        (workload("small training", busy(20), kind=SampleKind.TRAINING), Mode.MIG),
        (workload("busy training", busy(60), kind=SampleKind.TRAINING), Mode.WHOLE),
        (workload("spiky", busy(9), kind=SampleKind.INFERENCE), Mode.TIME_SLICE),
        (workload("steady", busy(10), kind=SampleKind.INFERENCE), Mode.MPS),
        (workload("batch", busy(20), kind=SampleKind.BATCH), Mode.TIME_SLICE),
        (workload("notebook", busy(20), kind=SampleKind.NOTEBOOK), Mode.TIME_SLICE),
        (workload("experiment", busy(20), kind=SampleKind.EXPERIMENT), Mode.TIME_SLICE),
        # A T4 cannot be cut, so only a whole one isolates, and only a whole one is predictable.
        (workload("tenant", busy(10), strict=True, model="T4"), Mode.WHOLE),
        (workload("small training", busy(20), kind=SampleKind.TRAINING, model="T4"), Mode.WHOLE),
    ],
    ids=lambda value: value.name if isinstance(value, SharingWorkload) else "",
)
def test_the_table_of_practice(asked: SharingWorkload, mode: Mode) -> None:
    chosen = choose(asked, CARD_MIB)
    assert chosen.mode is mode
    assert chosen.reasons[0]


@pytest.mark.parametrize(
    # With a tenth more: 37,236 -> 40,960 is half of 81,920 MiB, 37,237 -> 40,961 is more.
    ("memory_mib", "mode"),
    [(37236, Mode.FRACTION), (37237, Mode.WHOLE)],
)
def test_what_needs_more_than_half_of_the_memory_stays_alone(memory_mib: int, mode: Mode) -> None:
    assert choose(workload("large", busy(10), memory_mib=memory_mib), CARD_MIB).mode is mode


@pytest.mark.parametrize(
    # 1g.10gb has 9,856 MiB and 1/7 of the slices (14.2 %), 1g.20gb 19,968 MiB, 2g.20gb 2/7 (28.5 %),
    # 3g.40gb 3/7 (42.8 %) and 40,192 MiB, 4g.40gb 4/7 (57.1 %) and as much; 7g.80gb leaves room for nobody.
    ("use", "memory_mib", "profile"),
    [
        (14, 8960, "1g.10gb"),
        (14, 8961, "1g.20gb"),
        (15, 8960, "2g.20gb"),
        (28, 18152, "2g.20gb"),
        (29, 18152, "3g.40gb"),
        (42, 36538, "3g.40gb"),
        (43, 8960, "4g.40gb"),
        (49, 36538, "4g.40gb"),
        (58, 8960, ""),
        (14, 36539, ""),
    ],
)
def test_the_smallest_instance_that_holds_it(use: int, memory_mib: int, profile: str) -> None:
    chosen = choose(workload("tenant", busy(use), memory_mib=memory_mib, strict=True), CARD_MIB)
    assert chosen.profile == profile
    assert chosen.mode is (Mode.MIG if profile else Mode.WHOLE)


def test_a_fraction_covers_the_typical_peak_and_the_memory() -> None:
    # 22 % in 19 of 20 instants, 90 % in one: the 95th percentile is 22 %, booked in steps of 5 %.
    chosen = choose(workload("some", [22] * 19 + [90]), CARD_MIB)
    assert (chosen.gpu_milli, chosen.memory_mib) == (250, 8800)
