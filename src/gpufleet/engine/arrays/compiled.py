"""How the hot loops are compiled: one decorator, and a cache that can never be stale.

numba keeps compiled functions on disk but only looks at the file of the function itself, not at
the files of those it calls. So the cache folder is named after a digest of every source file of
the engine: a change anywhere compiles anew, and old folders are swept by ``compile``.
``GPUFLEET_KERNEL_CACHE`` names another place, for images that are built once and run read-only.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ENGINE_FOLDER = Path(__file__).parents[1]


def sources_digest() -> str:
    """A short digest over the engine's source files and numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(ENGINE_FOLDER.rglob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """The folder that holds one sub-folder of compiled kernels per state of the sources."""
    named = os.environ.get("GPUFLEET_KERNEL_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path("~/.cache").expanduser()
    return folder / "gpufleet" / "kernels"


CACHE_FOLDER = cache_root() / sources_digest()
numba.config.CACHE_DIR = str(CACHE_FOLDER)


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function over arrays and integers, keeping its Python signature for the reader.

    Strict floating point (no reordering) and no parallel loops: the same bits on every machine.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return cast("Callable[Parameters, Result]", compiled)


def leaf(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A kernel that is always merged into its caller.

    Handing ``Tables`` to a function that stays a call of its own costs some 20 ns, mostly counting
    references; that is too much for what is asked of every device of every node.
    """
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    return cast("Callable[Parameters, Result]", compiled)


def entry(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A kernel that Python calls for every pod, with all that it calls merged into it, as a ``leaf`` is.

    numba hands ``forceinline`` down to the kernels that it compiles for this one. Without it each of them
    stays a call with some four hundred arguments, and finding the best node takes three times as long.
    """
    return leaf(function)
