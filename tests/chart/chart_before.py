"""The chart of the release before, packed as `helm package` packs one, from which tests upgrade.

No release was published yet, so it is the chart of an earlier commit, from before there were policies, an
operator and projects. ``python -m tests.chart.chart_before COMMIT`` packs that of another commit; a release
takes the commit of its tag. It is kept as a file because a checkout need not have the history.
"""

import gzip
import io
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.conventions.project import ROOT

COMMIT = "ad1dca36"
"""The last commit of the day before FleetPolicy came."""

ARCHIVE = Path(__file__).parent / "before" / "gpufleet-0.1.0.tgz"
NAME = "gpufleet"
CHART = f"charts/{NAME}"
LINKED = {
    f"{CHART}/files": "src/gpufleet/kube/manifests",
    f"{CHART}/admission": "src/gpufleet/admission/generated",
}
"""Folders of the chart that are links, and where they lead: a packaged chart has the files."""

SUFFIXES = frozenset({".yaml", ".yml", ".json", ".tpl", ".txt", ".md", ".helmignore"})
EPOCH_S = 315532800
"""1980-01-01, the first time that every format can hold."""


def files(commit: str) -> dict[str, bytes]:
    """The files of the chart in a commit, by their names in the package."""
    found = {}
    for folder, place in ({CHART: CHART} | LINKED).items():
        for path in _listed(commit, place):
            suffix = Path(path).suffix or Path(path).name
            if suffix in SUFFIXES:
                name = f"{folder}{path.removeprefix(place)}".removeprefix("charts/")
                found[name] = _git("show", f"{commit}:{path}")
    return found


def _listed(commit: str, place: str) -> list[str]:
    """The files of a folder in a commit, without links; none where it has no such folder."""
    lines = _git("ls-tree", "-r", commit, "--", place).decode().splitlines()
    return [line.partition("\t")[2] for line in lines if not line.startswith("120000")]


def _git(*arguments: str) -> bytes:
    command = ["/usr/bin/env", "git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout


def pack(commit: str, archive: Path) -> None:
    """Write the package; the same commit gives the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as written:
        for name, content in sorted(files(commit).items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), EPOCH_S, 0o644
            written.addfile(entry, io.BytesIO(content))
    archive.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    pack(sys.argv[1], ARCHIVE)
