"""The life of a pod as buckets, in the order in which the first that applies counts."""

from fractions import Fraction

from gpufleet.ledger.buckets import FREE_ORDER, HELD_BUCKETS, Bucket, Holding
from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import DeviceId, PodUid


def holding(**changed: object) -> Holding:
    """Bound at 0 into a gang that is whole at 10, started at 20, ready at 30, deleted at 40, gone at 50."""
    marks: dict[str, object] = {
        "gang_whole_us": 10,
        "started_us": 20,
        "ready_us": 30,
        "has_readiness_probe": True,
        "deletion_us": 40,
        **changed,
    }
    return Holding(DeviceId("g"), PodUid("p"), Fraction(1), Span(0, 50), **marks)  # type: ignore[arg-type]


def phases(one: Holding) -> list[Bucket | None]:
    return [one.phase(at) for at in (0, 9, 10, 19, 20, 29, 30, 39, 40, 49)]


def test_a_pod_waits_starts_loads_computes_and_ends() -> None:
    waiting, starting, loading, ending = Bucket.WAITING, Bucket.STARTING, Bucket.LOADING, Bucket.ENDING
    assert phases(holding()) == [
        *(waiting, waiting, starting, starting, loading, loading),
        *(None, None, ending, ending),
    ]


def test_a_pod_without_a_probe_never_loads_and_may_become_unready_without_loading_again() -> None:
    assert Bucket.LOADING not in phases(holding(has_readiness_probe=False, ready_us=None))


def test_a_pod_that_ends_before_it_has_started_ends() -> None:
    ended_early = holding(gang_whole_us=None, started_us=None, ready_us=None, deletion_us=20)
    assert phases(ended_early) == [Bucket.WAITING] * 4 + [Bucket.ENDING] * 6


def test_what_comes_after_the_last_sight_of_a_pod_is_an_estimate_and_never_idle() -> None:
    lost = holding(seen_until_us=35)
    assert [lost.phase(at) for at in (34, 35, 45)] == [None, Bucket.UNMEASURED, Bucket.UNMEASURED]
    assert [lost.is_estimated(at) for at in (34, 35)] == [False, True]


def test_every_bucket_is_of_what_is_held_or_of_what_is_free() -> None:
    assert set(Bucket) == HELD_BUCKETS | set(FREE_ORDER) | {Bucket.IDLE_FREE}
    assert not HELD_BUCKETS & set(FREE_ORDER)
