"""Finding and opening the library: each test is a process of its own, where nothing is loaded yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.nvidia.machine import STATE, VERSION, Machine, build

NEWER = "590.10.02"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the dynamic linker looks for the library."""
    return build(tmp_path_factory.mktemp("search_path")).parent


def told(story: str, machine: Machine, search: Path) -> list[str]:
    """What a process prints that finds its library in a folder."""
    begin = f"""
import time
from pathlib import Path
from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.nvidia.backend import NvidiaBackend
backend = NvidiaBackend(Path({str(machine.folder)!r}), clock_s=time.monotonic, wall_s=time.time)
def opened():
    try:
        backend.open()
    except DriverError as error:
        print(error)
    else:
        print("open", backend.fleet().driver.vendor_library_version)
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(search), STATE: str(machine.state)}
    done = subprocess.run(
        [sys.executable, "-c", begin + story],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_library_is_found_by_its_name(tmp_path: Path, folder: Path) -> None:
    assert (
        told("opened(); opened(); backend.close()", Machine(tmp_path), folder) == [f"open 13.{VERSION}"] * 2
    )


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    (line,) = told("opened()", machine, tmp_path)
    assert line.startswith("libnvidia-ml.so.1 cannot be loaded: install the NVIDIA driver")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "the kernel's module is not loaded: load it with `modprobe nvidia`"),
        (4, "not permitted"),
        (999, "an error that the driver does not explain"),
        (777, "NVML's error 777"),
    ],
)
def test_a_driver_that_does_not_open_says_why(tmp_path: Path, folder: Path, code: int, words: str) -> None:
    machine = Machine(tmp_path)
    machine.tells(**{"fail.nvmlInit": code})
    (line,) = told("opened()", machine, folder)
    assert words in line


def test_an_upgraded_driver_is_opened_with_its_new_library(tmp_path: Path) -> None:
    search = tmp_path / "lib"
    old = build(search)
    newer = build(tmp_path / "newer", NEWER)
    machine = Machine(tmp_path)
    machine.tells(module=NEWER, driver=NEWER)
    text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {NEWER}  Tue Sep  1 00:00:00 UTC 2026\n"
    machine.file("proc/driver/nvidia/version", text)
    story = f"opened(); Path({str(newer)!r}).replace({str(old)!r}); opened(); backend.close()"
    first, second = told(story, machine, search)
    assert first == (
        "driver/library version mismatch: load the module that fits the library, or restart the node"
        f" (nvmlInit); the kernel's module is {NEWER}, the library is 13.{VERSION}"
    )
    assert second == f"open 13.{NEWER}"
