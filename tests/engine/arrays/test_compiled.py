"""Kernels are made when they are needed, and not before."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

import gpufleet.engine
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import PACKAGE_FOLDER, Kernel, kernel, kernel_sources, leaf


def test_whoever_imports_the_engine_does_not_import_numba() -> None:
    """numba takes as long to import as all the rest of a scheduler."""
    program = "import sys, gpufleet.scheduler.process; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"


@leaf
def doubled(number: int) -> int:
    """Twice a number."""
    return 2 * number


@kernel
def sum_of_doubles(numbers: Int64Array) -> int:
    """What all numbers come to, each doubled."""
    total = 0
    for place in range(len(numbers)):
        total += doubled(numbers[place])
    return total


def test_a_kernel_that_calls_another_is_made_when_it_is_first_called() -> None:
    assert isinstance(sum_of_doubles, Kernel)
    assert sum_of_doubles(np.array([1, 2, 3])) == 12
    assert sum_of_doubles(np.array([4])) == 8


@kernel
def next_number(number: int) -> int:
    """The number after a number."""
    return number + 1


def test_a_kernel_that_two_threads_call_first_is_made_once() -> None:
    assert isinstance(next_number, Kernel)
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(next_number.made) for _ in range(8)]
        assert len({id(one.result()) for one in made}) == 1
    assert next_number(1) == 2


def test_a_kernel_says_of_itself_what_its_function_says() -> None:
    assert next_number.__doc__ == "The number after a number."
    assert next_number.__name__ == "next_number"


def test_a_kernel_leaves_open_whether_it_is_merged() -> None:
    """An ``entry`` merges the kernels that it calls into itself, as far as these do not say otherwise."""
    assert "forceinline" not in made(next_number).targetoptions
    assert made(doubled).targetoptions["forceinline"]


def made(one: object) -> Any:
    """What numba made of a kernel."""
    assert isinstance(one, Kernel)
    return one.made()


def engine_kernels() -> Iterator[Kernel]:
    """Every kernel of the engine."""
    for module in pkgutil.walk_packages(gpufleet.engine.__path__, "gpufleet.engine."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel):
                yield value


def imported_names(path: Path) -> dict[str, Path]:
    """The names of gpufleet's own that a module imports at its top, with the files of their modules."""
    found = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("gpufleet."):
            for name in statement.names:
                base = PACKAGE_FOLDER.parent.joinpath(*str(statement.module).split("."))
                options = (base / f"{name.name}.py", base.with_suffix(".py"), base / "__init__.py")
                found[name.asname or name.name] = next(option for option in options if option.is_file())
    return found


def names_in(code: CodeType) -> set[str]:
    """The global names that a function reads."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def test_whatever_a_kernel_reads_from_another_module_is_among_the_sources_of_kernels() -> None:
    sources = set(kernel_sources())
    for one in engine_kernels():
        path = Path(one.function.__code__.co_filename)
        assert path in sources
        imported = imported_names(path)
        missing = {
            name for name in names_in(one.function.__code__) & set(imported) if imported[name] not in sources
        }
        assert not missing, f"{path}: {one.function.__qualname__} reads {missing}"


def test_constants_that_a_source_of_kernels_builds_on_are_among_them() -> None:
    sources = set(kernel_sources())
    for path in sources:
        for name, source in imported_names(path).items():
            assert not name.isupper() or source in sources, f"{path}: {name}"


def test_kernels_of_the_engine_are_kept_by_module_and_others_by_path() -> None:
    from gpufleet.engine.arrays.kernel_files import KernelFiles

    score = PACKAGE_FOLDER / "engine/place/score/fit.py"
    assert KernelFiles.get_suitable_cache_subpath(str(score)) == "engine.place.score.fit"
    assert KernelFiles.get_suitable_cache_subpath(__file__).startswith("arrays_")
