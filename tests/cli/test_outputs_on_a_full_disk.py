"""A disk that fills while a command writes: the old file stays whole, and the command names file and way out.

The commands are asked for their options, so that none can be forgotten. A limit on the size of files fails in
the middle of a write, as a full disk does.
"""

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.cli import parameters as kinds
from gpufleet.cli.main import ExitCode, main
from gpufleet.cluster.snapshots.command import Taken
from gpufleet.ledger.log_file import observation_line
from gpufleet.ledger.versions import Followed, ObjectKind
from gpufleet.operator.projects.ending import ProjectContent
from gpufleet.scheduler import kernels, process
from gpufleet.scheduler.rounds import Record
from tests.cli.command_parameters import Parameter, line_with, parameters, write_good_files

DAEMONS = {"ledger --folder"}
"""Folders of daemons, which follow a cluster and do not end: their own tests fill the disk (tests/ledger)."""

OUTPUTS = [
    one
    for one in parameters()
    if isinstance(one.asked.type, kinds.OutputFile | kinds.OutputFolder) and str(one) not in DAEMONS
]
NEEDS = {
    "scheduler --event-log": "--listen 127.0.0.1:0",
    "replay --ledger": "--mode timeline --begin 2026-10-31",
    "plan --out": "--history tasks.csv --nodes nodes.csv",
}
EXCLUDED_BY = {"plan --out": "--kubeconfig"}
ROOM_BYTES = 10
"""Each output is longer, so it fails after its beginning."""

QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus}
spec: {hard: {limits.nvidia.com/gpu: "4"}}
"""
"""Lint has a finding in it, and mends it."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with good files; a cluster with one line and one project; a scheduler that takes one step."""
    monkeypatch.chdir(tmp_path)
    write_good_files(tmp_path)
    Path("manifest.yaml").write_text(QUOTA, encoding="utf-8")

    def taken(*_: object) -> Taken:
        return Taken([b"one line of a snapshot\n"], pods=0, nodes=0, forbidden=())

    async def one_step(*_: object, record: Record | None, **__: object) -> None:
        assert record is not None
        record(0, (), [], goes_on=False)

    @asynccontextmanager
    async def connected(_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(client=None)

    async def content_of(*_: object) -> ProjectContent:
        return ProjectContent("vision", exists=True, namespaces=(), objects=())

    async def end(*_: object) -> tuple[str, ...]:
        return ()

    async def nothing(*_: object) -> None:
        return None

    for name, stand_in in (("connect", connected), ("content_of", content_of), ("end", end)):
        monkeypatch.setattr(f"gpufleet.cli.project_deletion.{name}", stand_in)
    monkeypatch.setattr("gpufleet.cluster.snapshots.command.snapshot_of", taken)
    monkeypatch.setattr(process, "run", one_step)
    monkeypatch.setattr(process, "await_definitions", nothing)
    monkeypatch.setattr(kernels, "prepare", lambda _: None)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a few bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def files_below(folder: Path) -> dict[str, bytes]:
    """All files by name, also hidden ones, with their content."""
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()
    }


def assert_full(code: int, said: str, file: str) -> None:
    assert code == ExitCode.WORLD_FAILED, said
    told = said.strip().splitlines()[-1]
    assert file in told, said
    assert "no room left on the disk; free some space or write elsewhere" in told, said
    assert "Traceback" not in said


@pytest.mark.parametrize("parameter", OUTPUTS, ids=str)
def test_old_files_stay_whole_and_the_full_disk_is_told(
    tmp_path: Path, parameter: Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(parameter)
    line = line_with(parameter, "written", NEEDS.get(name, ""), EXCLUDED_BY.get(name, ""))
    main(line)
    before = files_below(tmp_path)
    assert any(name.startswith("written") and content for name, content in before.items())
    capsys.readouterr()
    if str(parameter) == "cost --save":
        # What the file has already is not written again.
        with Path("seen.ledger").open("ab") as file:
            file.write(observation_line(Followed(ObjectKind.POD, 1, 2)))
        before = files_below(tmp_path)
    if str(parameter) == "close-month --accounts":
        # A month whose checksum is there is closed and not written again.
        Path("written/2026-10.charges.parquet.sha256").unlink()
        before = files_below(tmp_path)
    with full_disk():
        code = main(line)
    assert_full(code, capsys.readouterr().err, "written")
    after = files_below(tmp_path)
    if str(parameter) == "scheduler --event-log":
        # A log grows while the scheduler runs; what was written stays.
        assert before["written"].startswith(after.pop("written"))
        del before["written"]
    assert after == before


def test_a_manifest_that_is_mended_stays_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_below(tmp_path)
    with full_disk():
        code = main(["lint", "manifest.yaml", "--fix"])
    assert_full(code, capsys.readouterr().err, "manifest.yaml")
    assert files_below(tmp_path) == before
