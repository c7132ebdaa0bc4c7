"""The engine's kernels when the scheduler starts: compiled once, afterwards loaded beside the first lists.

To compile them all takes over a minute, and must be over before we lead: a Lease is not renewed meanwhile.
Out of the cache a kernel comes within milliseconds when it is first called. What takes long then is to import
numba; a thread does that while the process asks for its Lease and lists the API.

Which of the two it is, ``files.kernel_mark`` says.
"""

import logging
import threading
import time

from gpufleet.engine.arrays.compiled import CACHE_FOLDER
from gpufleet.engine.compile import story, story_of_pods
from gpufleet.engine.policy import find_policy
from gpufleet.files.kernel_mark import Mark, processor
from gpufleet.progress.durations import Step
from gpufleet.progress.kernels import CompilingReport
from gpufleet.progress.logged import ToLog

LOG = logging.getLogger(__name__)

# Counted and measured on two cores of a virtual machine.
KERNELS, KERNELS_STEP = 165, Step("kernels of the scheduler", 75, least_s=10)


def prepare(policy: str) -> threading.Thread | None:
    """Compile the engine's kernels, or, where all are in the cache, begin to load what every decision needs.

    The thread that loads; None if there was something to compile, which is over then.
    """
    mark = Mark(CACHE_FOLDER, policy, processor())
    if mark.holds():
        loading = threading.Thread(target=story_of_pods, args=(find_policy(policy),), name="kernels")
        loading.start()
        LOG.info("the engine's kernels are loaded from the cache")
        return loading
    began_s = time.monotonic()
    with CompilingReport(ToLog(LOG), KERNELS_STEP, KERNELS):
        story(find_policy(policy))
    mark.set()
    LOG.info("the engine is ready", extra={"after_s": round(time.monotonic() - began_s, 1)})
    return None
