"""A mark says that numba will find every kernel in the cache."""

from pathlib import Path

import pytest

from gpufleet.files.kernel_mark import Mark, processor


class Cache:
    """A cache of kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cache"
        self.folder.mkdir()

    def compiled(self, kernels: int) -> None:
        """The cache has so many kernels."""
        for number in range(kernels):
            file = self.folder / "place" / f"kernel-{number}.nbc"
            file.parent.mkdir(exist_ok=True)
            file.touch()

    def mark(self, policy: str = "gpufleet", made_for: str = "this processor") -> Mark:
        """The mark for a policy and a processor."""
        return Mark(self.folder, policy, made_for)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A cache of two kernels with a mark."""
    made = Cache(tmp_path)
    made.compiled(2)
    made.mark().set()
    return made


def test_a_mark_holds_as_long_as_no_kernel_is_missing(cache: Cache) -> None:
    assert cache.mark().holds()
    cache.compiled(3)
    assert cache.mark().holds()
    for number in (0, 1):
        (cache.folder / "place" / f"kernel-{number}.nbc").unlink()
    assert not cache.mark().holds()


def test_a_mark_holds_for_one_policy_and_one_processor(cache: Cache) -> None:
    assert not cache.mark(policy="fgd").holds()
    assert not cache.mark(made_for="another processor").holds()


def test_a_cache_without_a_mark_may_lack_kernels(cache: Cache) -> None:
    cache.mark().path.unlink()
    assert not cache.mark().holds()


@pytest.mark.parametrize("said", ["", "many"])
def test_a_mark_that_cannot_be_read_says_nothing(cache: Cache, said: str) -> None:
    cache.mark().path.write_text(said)
    assert not cache.mark().holds()


def test_a_cache_that_cannot_be_written_gets_no_mark(tmp_path: Path) -> None:
    mark = Mark(tmp_path / "absent", "gpufleet", "this processor")
    mark.set()
    assert not mark.holds()


def test_processors_differ_by_their_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)

    def named(text: str) -> str:
        file = tmp_path / "cpuinfo"
        file.write_text(text)
        return processor(file)

    first = named("vendor_id\t: A\nflags\t: avx2\ncpu MHz\t: 2100\n\nvendor_id\t: A\n")
    assert first == named("vendor_id\t: A\nflags\t: avx2\ncpu MHz\t: 3400\n\n")
    assert first != named("vendor_id\t: A\nflags\t: avx2 avx512f\n\n")
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert named("flags\t: avx2\n") == named("flags\t: sse2\n")
