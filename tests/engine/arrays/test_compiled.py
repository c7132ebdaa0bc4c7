"""Kernels are made when they are needed, and not before."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import Kernel, kernel, leaf


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
