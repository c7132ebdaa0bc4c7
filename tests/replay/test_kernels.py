"""Kernels of a replay are compiled, and told of, where the cache has none of this state of the sources."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import Progress, Silent
from gpufleet.replay import kernels


class Checkout:
    """An engine whose kernels are files in a folder that several checkouts share."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.stories = 0

    def told(self, *_: object) -> None:
        """A story was told to the engine, which compiles."""
        self.stories += 1
        place = self.cache / "score"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"kernel-{self.stories}.nbc").touch()


def prepare(monkeypatch: pytest.MonkeyPatch, checkout: Checkout) -> int:
    """How many stories had to be told to have all kernels in the cache."""
    before = checkout.stories
    monkeypatch.setattr(kernels, "CACHE_FOLDER", checkout.cache)
    monkeypatch.setattr(kernels, "story_of_pods", checkout.told)
    kernels.prepare(Silent())
    return checkout.stories - before


def test_kernels_are_compiled_once_for_all_checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Checkout(tmp_path), Checkout(tmp_path)
    assert prepare(monkeypatch, first) > 0
    assert prepare(monkeypatch, first) == 0
    assert prepare(monkeypatch, second) == 0


@pytest.mark.parametrize(("replayed", "step"), [(True, kernels.OTHERS_STEP), (False, kernels.ALL_STEP)])
def test_after_a_replay_only_the_other_kernels_are_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replayed: bool, step: Step
) -> None:
    checkout = Checkout(tmp_path / "cache")
    checkout.cache.mkdir()
    monkeypatch.setattr(kernels, "CACHE_FOLDER", checkout.cache)
    if replayed:
        prepare(monkeypatch, checkout)
    expected: list[Step] = []

    def told(progress: Progress, step: Step, count: int) -> AbstractContextManager[None]:  # noqa: ARG001
        expected.append(step)
        return nullcontext()

    monkeypatch.setattr(kernels, "CompilingReport", told)
    monkeypatch.setattr(kernels, "story", checkout.told)
    monkeypatch.setattr(kernels, "sweep_old_caches", lambda: None)
    kernels.prepare_all(Silent())
    assert expected == [step]


def test_kernels_that_were_taken_away_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = Checkout(tmp_path / "cache")
    prepare(monkeypatch, checkout)
    next((tmp_path / "cache").rglob("*.nbc")).unlink()
    assert prepare(monkeypatch, checkout) > 0
