"""Compiles the engine's kernels before they are needed, and tells how far that is.

``python -m gpufleet.replay.kernels`` compiles those that a replay calls, with ``--all`` every other one too;
set-up runs it. A replay asks ``prepare`` first, so that its workers find them in the cache instead of each
compiling them.
"""

import sys

from gpufleet.engine.arrays.compiled import CACHE_FOLDER
from gpufleet.engine.compile import story, story_of_pods, sweep_old_caches
from gpufleet.engine.policy import POLICIES, find_policy
from gpufleet.files.kernel_mark import Mark, processor
from gpufleet.progress.durations import Step
from gpufleet.progress.kernels import CompilingReport
from gpufleet.progress.reporting import Progress, ToPerson

# Counted, and measured on two cores of a virtual machine.
OF_A_REPLAY, OF_A_REPLAY_STEP = 134, Step("kernels of a replay", 35)
ALL, ALL_STEP = 173, Step("kernels", 50)
OTHERS, OTHERS_STEP = ALL - OF_A_REPLAY, Step("kernels beside those of a replay", 30)
REPLAY = "replay"
"""The mark of these kernels is that of no policy."""
EVERY = "--all"


def prepare(progress: Progress) -> None:
    """Have what a replay calls in the cache; at once where it is there."""
    mark = _mark(REPLAY)
    if mark.holds():
        return
    with CompilingReport(progress, OF_A_REPLAY_STEP, OF_A_REPLAY):
        for name in ("fgd", "gpufleet"):
            story_of_pods(find_policy(name))
    mark.set()


def prepare_all(progress: Progress) -> None:
    """Have every kernel in the cache, and sweep old ones."""
    step, count = (OTHERS_STEP, OTHERS) if _mark(REPLAY).holds() else (ALL_STEP, ALL)
    with CompilingReport(progress, step, count):
        for name in sorted(POLICIES):
            story(POLICIES[name])
    for name in (REPLAY, *sorted(POLICIES)):
        _mark(name).set()
    sweep_old_caches()


def _mark(name: str) -> Mark:
    return Mark(CACHE_FOLDER, name, processor())


if __name__ == "__main__":
    (prepare_all if EVERY in sys.argv[1:] else prepare)(ToPerson("setup: "))
