"""Files that a user names are written in one place, whole or not at all: ``gpufleet.files.atomic_write``.

A disk may fill in the middle, and what was there before is then lost. A module that writes by itself stands
in the table below with its reason.
"""

import ast
from pathlib import Path

import pytest

from tests.conventions.project import ROOT, name, python_files, tree

SOURCE = "src/gpufleet/"
THE_ONE_PLACE = "src/gpufleet/files/"
WRITES_BY_ITSELF = {
    "agent/process.py": "the name of this process, which the kernel keeps",
    "agent/state/disk.py": "the agent's own state, synced and renamed",
    "kube/configured_access.py": "a certificate for as long as it is read",
    "localkube/access/certificates.py": "a cluster's own keys, readable by their owner only from the start",
    "localkube/cluster.py": "the log of a cluster's supervisor",
    "localkube/node/cgroups.py": "settings of the kernel",
    "localkube/node/configuration.py": "a cluster's own folder, made anew",
    "localkube/node/driver_stand_ins.py": "an archive in a cluster's own folder",
    "localkube/node/images.py": "an archive in a cluster's own folder",
    "localkube/node/private_view.py": "a cluster's own folder, made anew",
    "localkube/node_agent.py": "a cluster's own folder, made anew",
    "localkube/processes/child.py": "a log of a program that we start",
    "localkube/processes/folders.py": "a file that is locked, without content",
    "localkube/processes/plan.py": "a cluster's own folder, renamed in",
    "localkube/programs/downloading.py": "what is downloaded, checked before it takes its place",
    "localkube/programs/pin_digests.py": "a maintainer's own checkout",
    "localkube/programs/pin_modules.py": "a maintainer's own checkout",
    "progress/durations.py": "how long steps took, which nobody misses",
    "replay/peak_memory.py": "a setting of the kernel",
    "replay/ray_sweep.py": "a folder of a worker",
    "simulation/forked_copy.py": "a pipe",
    "simulation/node/kubelet.py": "the folder of a simulated node",
    "simulation/node/world.py": "the folder of a simulated node",
}
WRITING_METHODS = {"write_bytes", "write_text"}


def writes(path: Path) -> list[str]:
    """The calls in a module that write a file."""
    return [
        f"{name(path)}:{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and _writes(node)
    ]


def _writes(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in WRITING_METHODS:
        return True
    called = ast.unparse(call.func).rpartition(".")[2]
    if called == "NamedTemporaryFile":
        return True
    if called not in {"open", "fdopen"}:
        return False
    given = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
    modes = {one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes)


def test_no_file_is_written_beside_the_one_place() -> None:
    places = [one for one in python_files("src") if not name(one).startswith(THE_ONE_PLACE)]
    found = [
        line
        for one in places
        if name(one).removeprefix(SOURCE) not in WRITES_BY_ITSELF
        for line in writes(one)
    ]
    with_what = "gpufleet.files.atomic_write (atomic_write, write_whole, growing_file)"
    assert not found, f"write it with {with_what}:\n" + "\n".join(found)


def test_exceptions_are_still_needed() -> None:
    for place in WRITES_BY_ITSELF:
        assert writes(ROOT / SOURCE / place), place


@pytest.mark.parametrize(
    "written",
    [
        "Path(given).write_bytes(content)",
        "given.write_text(text, encoding='utf-8')",
        "open(given, 'w')",
        "given.open('xb')",
        "given.open(mode='a')",
        "os.fdopen(descriptor, 'wb')",
        "tarfile.open(given, 'w')",
    ],
)
def test_a_bare_write_is_found(written: str) -> None:
    call = ast.parse(written, mode="eval").body
    assert isinstance(call, ast.Call)
    assert _writes(call)


@pytest.mark.parametrize("read", ["open(given)", "given.open('rb')", "open('wax.csv')", "given.open()"])
def test_a_read_is_no_write(read: str) -> None:
    call = ast.parse(read, mode="eval").body
    assert isinstance(call, ast.Call)
    assert not _writes(call)
