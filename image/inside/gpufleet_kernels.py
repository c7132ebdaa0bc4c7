"""Where numba finds the compiled kernels of this image, and where new ones go.

The image is read-only and numba wants a folder that it can write. So the folder of kernels (an empty volume,
or a folder of this container) is filled, when the first kernel is looked for, with links to those in the
image. A kernel that is not there is compiled and stays beside the links until the container ends.

The environment of the image names this class to numba (NUMBA_CACHE_LOCATOR_CLASSES).
"""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import config

from gpufleet.engine.arrays.kernel_files import KernelFiles

BROUGHT = Path("/usr/lib/gpufleet/kernels")


class ImageKernels(KernelFiles):
    """The locator of gpufleet's kernels, with the image's kernels brought along."""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "ImageKernels | None":
        """The locator of one function, as numba asks for it."""
        if config.CACHE_DIR:
            bring(Path(config.CACHE_DIR))
        found: ImageKernels | None = super().from_function(py_func, py_file)
        return found


@functools.cache
def bring(folder: Path) -> None:
    """Put links to the image's kernels of this state of the sources into ``folder``."""
    source = BROUGHT / folder.name
    for path in sorted(source.rglob("*.nb[ic]")):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            target.symlink_to(path)
