"""What comes from outside is read in one place, within limits: ``gpufleet.files``.

A path may lead to a pipe that never ends, an archive may unfold into terabytes, and standard input has no
size. A module that reads by itself stands in the table below with its reason.
"""

import ast
from pathlib import Path

import pytest

from tests.conventions.project import ROOT, name, python_files, tree

SOURCE = "src/gpufleet/"
THE_ONE_PLACE = "src/gpufleet/files/"
READS_BY_ITSELF = {
    "advise/cuda/image_store.py": "the members of an archive, over a stream of gpufleet.files",
    "cuda/tables.py": "the package's own data",
    "fit/catalogue.py": "the package's own data",
    "fit/evidence.py": "the package's own data",
    "advise/lint/exemptions/__init__.py": "the package's own data",
    "lint/rules/__init__.py": "the package's own data",
    "plan/instance_types.py": "the package's own data",
    "usage/prometheus/client.py": "the answers of a server, with limits of bytes and time",
    "auditor/__main__.py": "imports nothing of ours on purpose, so that it can judge us",
    "agent/state/disk.py": "opens what it wrote to sync it",
    "agent/exporter/jobs.py": "without waiting, through no link, a few kilobytes",
    "engine/arrays/compiled.py": "the package's own source",
    "ledger/charges.py": "what DuckDB has just written into a folder of ours",
    "kube/manifests/__init__.py": "the package's own data",
    "localkube/processes/child.py": "the end of a log of a program that we started",
    "localkube/programs/downloading.py": "what is downloaded, checked against its pinned digest",
    "localkube/node/node_supervisor.py": "a namespace, which is no file",
    "localkube/programs/pin_modules.py": "what Go has just written for a maintainer",
    "localkube/programs/toolchain.py": "the package's own data",
    "progress/durations.py": "what it wrote itself, read before anything is installed",
    "replay/report/page.py": "the package's own data",
    "web/static_files.py": "the package's own data",
    "replay/table_bytes.py": "over a file that gpufleet.files opened, with a meter of its own",
}
READING_METHODS = {"read_bytes", "read_text"}
READING_CALLS = {
    "gzip.open",
    "gzip.GzipFile",
    "gzip.decompress",
    "bz2.open",
    "lzma.open",
    "zlib.decompress",
    "zlib.decompressobj",
    "tarfile.open",
    "zipfile.ZipFile",
    "io.open",
    "io.FileIO",
    "open",
    "urllib.request.urlopen",
    "sys.stdin.read",
    "sys.stdin.buffer.read",
}
WRITING = ("w", "a", "x")


def reads(path: Path) -> list[str]:
    """The calls in a module that read what may be from outside."""
    awaited = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Await)}
    return [
        f"{name(path)}:{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and id(node) not in awaited and _reads(node)
    ]


def _reads(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    if called == "os.open":
        return "O_RDONLY" in ast.unparse(call) and "O_DIRECTORY" not in ast.unparse(call)
    mode = next((word.value for word in call.keywords if word.arg == "mode"), None)
    given = mode or next(iter(call.args[1:2] if called in READING_CALLS else call.args[:1]), None)
    text = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""
    if called == "gzip.GzipFile" and any("wb" in ast.unparse(one) for one in call.args):
        return False
    if called in READING_CALLS:
        return not text.startswith(WRITING)
    if isinstance(call.func, ast.Attribute):
        if call.func.attr in READING_METHODS:
            return not call.args
        # Path.open: its first argument is a mode, that of others is none.
        return call.func.attr == "open" and text in {"r", "rb", "rt", "r+", "rb+"}
    return False


def test_nothing_from_outside_is_read_beside_the_one_place() -> None:
    places = [one for one in python_files("src") if not name(one).startswith(THE_ONE_PLACE)]
    found = [
        line for one in places if name(one).removeprefix(SOURCE) not in READS_BY_ITSELF for line in reads(one)
    ]
    with_what = "gpufleet.files (read_regular, read_kernel_file, read_standard_input, BoundedLines)"
    assert not found, f"read it with {with_what}:\n" + "\n".join(found)


def test_exceptions_are_still_needed() -> None:
    for place in READS_BY_ITSELF:
        assert reads(ROOT / SOURCE / place), place


@pytest.mark.parametrize(
    "written",
    [
        "Path(given).read_bytes()",
        "given.read_text(encoding='utf-8')",
        "open(given)",
        "given.open('rb')",
        "sys.stdin.buffer.read()",
        "gzip.open(given)",
        "os.open(given, os.O_RDONLY | os.O_CLOEXEC)",
        "tarfile.open(given)",
    ],
)
def test_a_bare_read_is_found(written: str) -> None:
    call = ast.parse(written, mode="eval").body
    assert isinstance(call, ast.Call)
    assert _reads(call)
