"""What the image holds works where it was not built: under another CPU, as another user."""

import json
from pathlib import Path

import pytest

from tests.image.built import Unpacked, needs_root

ANOTHER_CPU = """
import llvmlite.binding as llvm

features = llvm.get_host_cpu_features()
for name in features:
    features[name] = False
llvm.get_host_cpu_name = lambda: "btver1"
llvm.get_host_cpu_features = lambda: features
"""
EVERY_STORY = f"""{ANOTHER_CPU}
import gc
import json

from gpufleet.engine.compile import story
from gpufleet.engine.policy import POLICIES

for name in sorted(POLICIES):
    story(POLICIES[name])

from numba.core.dispatcher import Dispatcher

kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher) and one.signatures]
missed = [one.__name__ for one in kernels if one.stats.cache_misses]
found = [one.__name__ for one in kernels if one.stats.cache_hits]
print(json.dumps({{"missed": missed, "found": found}}))
"""
TARGET = f"""{ANOTHER_CPU}
from numba.core.registry import cpu_target

print(cpu_target.target_context.codegen().magic_tuple()[1])
"""
PYTHON = "/usr/bin/python3.11"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """The image in a folder."""
    needs_root()
    folder = tmp_path_factory.mktemp("image")
    # The image's user must be able to walk down to it.
    for parent in [folder, *folder.parents]:
        if parent.owner() == "root" and parent != Path("/") and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return Unpacked(folder)


def output(done: object) -> str:
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
    return str(done.stdout)  # type: ignore[attr-defined]


def test_it_runs_as_nobody_in_particular(unpacked: Unpacked) -> None:
    assert unpacked.config["User"] == "65532:65532"
    script = (
        "import os; print(os.getuid(), os.access('/usr', os.W_OK), os.access('/var/cache/gpufleet', os.W_OK))"
    )
    assert output(unpacked.run(PYTHON, "-c", script)) == "65532 False True\n"


def test_the_command_is_there(unpacked: Unpacked) -> None:
    (program,) = unpacked.config["Entrypoint"]
    assert output(unpacked.run(program, "--version")).startswith("gpufleet ")
    assert "--lease-namespace" in output(unpacked.run(program, "scheduler", "--help"))


def test_under_another_cpu_every_kernel_is_found(unpacked: Unpacked) -> None:
    """numba counts the kernels that it found in the cache and those that it had to compile."""
    told = json.loads(output(unpacked.run(PYTHON, "-c", EVERY_STORY)))
    assert told["missed"] == []
    assert len(told["found"]) > 10


def test_the_other_cpu_is_one_for_numba_too(unpacked: Unpacked) -> None:
    """What the test above rests on: without the image's environment numba would compile for that CPU."""
    assert output(unpacked.run(PYTHON, "-c", TARGET)) == "generic\n"
    own = {key: value for key, value in unpacked.environment.items() if key != "NUMBA_CPU_NAME"}
    assert output(unpacked.run(PYTHON, "-c", TARGET, environment=own)) == "btver1\n"


IMPORTS = """
import importlib
import pkgutil

import gpufleet

UNUSED = (
    "gpufleet.replay",
    "gpufleet.plan.history",
    "gpufleet.localkube",
    "gpufleet.simulation",
    "gpufleet.top",
    "gpufleet.cli",
)
for module in pkgutil.walk_packages(gpufleet.__path__, "gpufleet."):
    if not module.name.startswith(UNUSED) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_everything_that_a_cluster_runs_can_be_imported(unpacked: Unpacked) -> None:
    output(unpacked.run(PYTHON, "-W", "error", "-c", IMPORTS))


def test_there_is_no_shell_and_no_package_manager(unpacked: Unpacked) -> None:
    for name in ("bin/sh", "usr/bin/dpkg", "usr/bin/apt", "usr/local/bin/pip", "usr/bin/perl"):
        assert not (unpacked.root / name).exists(), name


def test_licences_came_along(unpacked: Unpacked) -> None:
    copyrights = list((unpacked.root / "usr/share/doc").glob("*/copyright"))
    assert len(copyrights) > 10
