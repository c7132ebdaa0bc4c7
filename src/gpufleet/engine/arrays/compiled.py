"""How the hot loops are compiled: one decorator, and a cache that can never be stale.

numba keeps compiled functions on disk but only looks at the file of the function itself, not at
the files of those it calls. So the cache folder is named after a digest of every source file that a
kernel may depend on: a change in any compiles anew, and old folders are swept by ``compile``.
Which files these are is read from their imports, and ``kernel_files`` says where in the folder a kernel is.
``GPUFLEET_KERNEL_CACHE`` names another place, for images that are built once and run read-only.

numba itself is imported when the first kernel is called: that takes as long as everything else of a
process that starts, and a kernel that is never called needs nothing of it.
"""

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar, cast

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ENGINE_FOLDER = Path(__file__).parents[1]
PACKAGE_FOLDER = ENGINE_FOLDER.parent
LOCATOR = "gpufleet.engine.arrays.kernel_files.KernelFiles"
DECORATED = re.compile(rb"^@(?:kernel|leaf|entry)$", re.MULTILINE)
"""A line of a module that has kernels."""
IMPORTED = re.compile(rb"^from gpufleet\.([\w.]+) import (?:\(([^)]*)\)|([^\n(]*))", re.MULTILINE)
"""An import of gpufleet's own at the top of a module: from where, and which names."""
COMPILED_IN = re.compile(rb"\b(?:[A-Z][A-Z0-9_]*|\w+Tables)\b")
"""Names whose values numba compiles into a kernel that uses them: constants, and types of bundled arrays."""


def kernel_sources() -> dict[Path, bytes]:
    """The source files on which compiled kernels depend.

    They are the modules with kernels, the arrays that kernels get, and where the constants come from that
    these use. What plans, keeps or explains in plain Python is not among them: to change it compiles nothing.
    """
    sources = {path: path.read_bytes() for path in ENGINE_FOLDER.rglob("*.py")}
    found = {path: text for path, text in sources.items() if DECORATED.search(text) or _is_of_arrays(path)}
    unread = list(found)
    while unread:
        for path in _constants_from(found[unread.pop()]):
            if path not in found:
                found[path] = sources[path] if path in sources else path.read_bytes()
                unread.append(path)
    return found


def _is_of_arrays(path: Path) -> bool:
    return path.parent == ENGINE_FOLDER / "arrays"


def _constants_from(text: bytes) -> Iterator[Path]:
    """The modules from which a module imports what may be compiled into a kernel."""
    for module, several, one in IMPORTED.findall(text):
        if COMPILED_IN.search(several or one):
            path = PACKAGE_FOLDER.joinpath(*module.decode().split("."))
            yield path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def sources_digest() -> str:
    """A short digest over the sources of kernels and numba's version."""
    digest = hashlib.sha256(version("numba").encode())
    for path, text in sorted(kernel_sources().items()):
        digest.update(str(path.relative_to(PACKAGE_FOLDER)).encode())
        digest.update(text)
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


class Kernel(functools.partial[Any]):
    """A function that is made a kernel when it is called, or when another kernel that calls it is compiled.

    It is a ``partial`` so that, once it is made, a call goes on to the compiled function without a line of
    Python in between. ``merged``: it becomes a part of each kernel that calls it.
    """

    function: Callable[..., Any]
    merged: bool

    def __new__(cls, function: Callable[..., Any], *, merged: bool) -> Self:
        """A kernel that is not made yet."""
        made = super().__new__(cls, function)
        functools.update_wrapper(made, function)
        made.function, made.merged = function, merged
        made._forward_to(made._make_and_call)
        return made

    def _forward_to(self, called: Callable[..., Any]) -> None:
        # The arguments are the only other state of a partial, and there are none.
        self.__setstate__((called, (), {}, self.__dict__))  # type: ignore[attr-defined]

    def _make_and_call(self, *arguments: Any) -> Any:
        return self.made()(*arguments)

    def made(self) -> Any:
        """The kernel itself, as numba knows it."""
        known = self.__dict__.get("kernel")
        if known is None:
            # A scheduler that starts loads kernels in a thread: what the first of two threads made holds.
            known = self.__dict__.setdefault("kernel", made_by_numba(self.function, merged=self.merged))
            self._forward_to(known)
        return known

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a value that stands in the source of a kernel."""
        return self.made()._numba_type_


def made_by_numba(function: Callable[..., Any], *, merged: bool) -> Any:
    """A kernel that numba compiles when it is first called, unless it is in the cache.

    Strict floating point (no reordering) and no parallel loops: the same bits on every machine.
    """
    import numba

    # What a handle is to numba must be known to it before anything is compiled.
    from gpufleet.engine.arrays import handle_in_kernels  # noqa: F401

    numba.config.CACHE_DIR = str(CACHE_FOLDER)
    # An image names a locator of its own, which knows the kernels that it brings.
    numba.config.CACHE_LOCATOR_CLASSES = numba.config.CACHE_LOCATOR_CLASSES or LOCATOR
    if merged:
        return numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    # Not ``forceinline=False``: what an ``entry`` hands down to the kernels it calls would not reach this.
    return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function over arrays and integers, keeping its Python signature for the reader."""
    return cast("Callable[Parameters, Result]", Kernel(function, merged=False))


def leaf(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A kernel that is always merged into its caller.

    Handing ``Tables`` to a function that stays a call of its own costs some 20 ns, mostly counting
    references; that is too much for what is asked of every device of every node.
    """
    return cast("Callable[Parameters, Result]", Kernel(function, merged=True))


def entry(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A kernel that Python calls for every pod, with all that it calls merged into it, as a ``leaf`` is.

    numba hands ``forceinline`` down to the kernels that it compiles for this one. Without it each of them
    stays a call with some four hundred arguments, and finding the best node takes three times as long.
    """
    return leaf(function)
