"""Manifests that another program renders: a Kustomization by kustomize or kubectl, a chart by helm.

What these programs make of their files is what a cluster gets, so it is what lint judges. They are looked for
on PATH and run without a shell. They render files alone; neither asks a cluster.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpufleet.model.model_errors import InputError, printable

LIMIT_S = 120.0
"""A Kustomization may fetch bases from the network; the largest public charts render in seconds."""

SAID_MAX = 400
"""Characters of what a program said that are shown."""

_KUSTOMIZERS = (("kustomize", "build"), ("kubectl", "kustomize"))


def kustomized(folder: Path) -> tuple[str, bytes]:
    """What a Kustomization builds, with the name that its findings go by. Raises InputError."""
    for program, verb in _KUSTOMIZERS:
        path = shutil.which(program)
        if path is not None:
            return f"kustomize build {folder}", _rendered([path, verb, _argument(folder)], "--kustomize")
    raise InputError(
        "neither kustomize nor kubectl is on PATH",
        field="--kustomize",
        value=str(folder),
        expected="one of them, or what it built elsewhere: kubectl kustomize FOLDER | gpufleet lint -",
    )


def helm() -> str | None:
    """The program that renders charts; None where there is none."""
    return shutil.which("helm")


def rendered_chart(program: str, folder: Path) -> tuple[str, bytes]:
    """What a chart renders with its own values, with the name that its findings go by. Raises InputError."""
    return f"helm template {folder}", _rendered([program, "template", "lint", _argument(folder)], str(folder))


def _argument(folder: Path) -> str:
    """The folder as an argument: a relative one may begin with a hyphen, and would be read as an option."""
    return str(folder.absolute())


def _rendered(command: Sequence[str], field: str) -> bytes:
    said = " ".join([Path(command[0]).name, *command[1:]])
    try:
        # Nothing may wait for a person: no input, and a limit of time.
        done = subprocess.run(  # noqa: S603  a program of PATH, by its own path, without a shell
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        problem = f"{said} did not end within {LIMIT_S:g} s"
        raise InputError(problem, field=field, expected="files that can be had quickly") from None
    except OSError as error:
        raise InputError(f"{said} cannot be run: {error.strerror}", field=field) from error
    if done.returncode:
        words = " ".join(done.stderr.decode("utf-8", "replace").split())[:SAID_MAX]
        raise InputError(
            f"{said} failed: {printable(words, SAID_MAX)}", field=field, expected="files that it can render"
        )
    return done.stdout
