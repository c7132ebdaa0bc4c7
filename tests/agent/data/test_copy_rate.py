"""The rate of copies, by hand."""

from gpufleet.agent.data.copy_rate import CopyRate

GIB = 1 << 30


def rate_of(*copies: tuple[int, float]) -> int | None:
    """The rate after these copies, each of so many bytes in so many seconds."""
    rate = CopyRate()
    for size_bytes, took_s in copies:
        rate.copied(size_bytes, took_s)
    return rate.bytes_per_s


def test_the_newest_copy_counts_half_and_only_large_ones_count() -> None:
    assert rate_of() is None
    assert rate_of((GIB - 1, 1.0), (GIB, 0.0)) is None
    # 1,073,741,824 bytes a second, in two digits.
    assert rate_of((10 * GIB, 10.0)) == 1_100_000_000
    # One second and three seconds a gibibyte are two: 536,870,912 bytes a second.
    assert rate_of((10 * GIB, 10.0), (GIB, 3.0)) == 540_000_000
