"""Pins the Go modules that `building` builds: writes go.mod, go.sum and tools.go of a release.

For contributors (`make kube-pin VERSION=1.36.3`); what it writes is committed, so that every build
anywhere is of the same, checksummed sources. Needs Go and a Go module proxy.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpufleet.localkube.programs import releases
from gpufleet.localkube.programs.releases import Release

GO_LINE = re.compile(r"^go (\S+)$", flags=re.MULTILINE)
GO = shutil.which("go") or "go"
STAGING = re.compile(r"^\s*(?:replace\s+)?(\S+) => \./staging/", flags=re.MULTILINE)


def pin(release: Release) -> None:
    """Write the three files of one release into `gomodules/`."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-pin-") as name:
        folder = Path(name)
        (folder / "tools.go").write_text(tools_go(release), encoding="utf-8")
        go(folder, "mod", "init", f"gpufleet.io/localkube/{release.project}")
        go(folder, "mod", "edit", f"-require={release.module}@v{release.version}")
        upstream = upstream_go_mod(folder, release)
        go(folder, "mod", "edit", f"-go={GO_LINE.findall(upstream)[0]}")
        for module in sorted(set(STAGING.findall(upstream))):
            # They live inside k8s.io/kubernetes, which as a dependency cannot see them there.
            version = "v0." + release.version.partition(".")[2]
            go(folder, "mod", "edit", f"-replace={module}={module}@{version}")
        go(folder, "mod", "tidy")
        release.pinned.mkdir(parents=True, exist_ok=True)
        for file in ("tools.go", "go.mod", "go.sum"):
            (release.pinned / file).write_bytes((folder / file).read_bytes())
    sys.stderr.write(f"pinned {release.project} {release.version} in {release.pinned}\n")


def tools_go(release: Release) -> str:
    """A file that imports the commands, so that `go mod tidy` keeps what they need."""
    imports = "\n".join(f'\t_ "{package}"' for _, package in release.packages)
    head = "//go:build tools\n\n// Package tools pins what is built here.\npackage tools\n"
    return f"{head}\nimport (\n{imports}\n)\n"


def upstream_go_mod(folder: Path, release: Release) -> str:
    """The project's own go.mod."""
    download = go(folder, "mod", "download", "-json", f"{release.module}@v{release.version}")
    return Path(json.loads(download)["GoMod"]).read_text(encoding="utf-8")


def go(folder: Path, *arguments: str) -> str:
    """Run Go in this folder and return what it wrote; ends the program where it fails."""
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        [GO, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"go {' '.join(arguments)} failed")
    return done.stdout


def main(versions: list[str]) -> None:
    """Pin these versions of Kubernetes, or without any, everything else that a cluster needs."""
    wanted = [releases.kubernetes(version) for version in versions] or [
        release for release in releases.others() if release.module
    ]
    for release in wanted:
        pin(release)


if __name__ == "__main__":
    main(sys.argv[1:])
