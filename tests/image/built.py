"""The image that `make image` built, unpacked as a runtime would: for tests that start something in it."""

import functools
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from image.__main__ import ARCHIVE
from image.build import problem
from tests.conventions.project import ROOT
from tests.lacking import lacking

IMAGE = ROOT / "build" / "image" / ARCHIVE
DIGEST = IMAGE.with_name("digest")


def image() -> Path:
    """The archive; skips the test, or fails it in CI, where there is none."""
    if IMAGE.is_file():
        return IMAGE
    return lacking(problem() or "there is no image: make image")


class Unpacked:
    """The image as a folder, and how it says that it is run."""

    def __init__(self, folder: Path) -> None:
        with tarfile.open(image()) as archive:
            archive.extractall(folder / "archive", filter="data")
        self.root = folder / "root"
        self.root.mkdir()
        index = json.loads((folder / "archive" / "index.json").read_text(encoding="utf-8"))
        manifest = self._document(folder, index["manifests"][0])
        self.config: dict[str, Any] = self._document(folder, manifest["config"])["config"]
        for layer in manifest["layers"]:
            with tarfile.open(self._blob(folder, layer)) as opened:
                opened.extractall(self.root, filter="tar", numeric_owner=True)
        shutil.rmtree(folder / "archive")

    def run(
        self, *command: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program inside, as the image's user and with its environment, or what it is changed to."""
        told = dict(one.split("=", 1) for one in self.config["Env"])
        chosen = told if environment is None else environment
        chroot = shutil.which("chroot") or "/usr/sbin/chroot"
        return subprocess.run(
            [chroot, f"--userspec={self.config['User']}", self.root, *command],
            env=chosen,
            capture_output=True,
            text=True,
            check=False,
        )

    @functools.cached_property
    def environment(self) -> dict[str, str]:
        """The image's environment."""
        return dict(one.split("=", 1) for one in self.config["Env"])

    def _document(self, folder: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._blob(folder, descriptor).read_text(encoding="utf-8"))
        return found

    def _blob(self, folder: Path, descriptor: dict[str, Any]) -> Path:
        path: Path = folder / "archive" / "blobs" / descriptor["digest"].replace(":", "/")
        return path


def needs_root() -> None:
    """Skips the test, or fails it in CI, where nothing can be started inside a folder."""
    if os.geteuid() != 0:
        lacking("starting something inside the image needs root")
