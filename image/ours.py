"""Our own part of the image: the wheel of this checkout, and the engine's kernels for a generic CPU.

The kernels are compiled inside the image by its own Python, so that paths, versions and the C library are
those with which they are loaded; for `generic`, so that every CPU loads them. That takes a minute and is kept
for the next build with the same engine.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from image.command import output_of
from image.debian import PYTHON
from image.dependencies import SITE
from image.errors import ImageError

PROJECT = Path(__file__).parents[1]
INSIDE = Path(__file__).with_name("inside")
KERNELS = "usr/lib/gpufleet/kernels"
CACHE = "var/cache/gpufleet"
NONROOT = 65532
TRACES = "gpufleet/data"
"""Part of the wheel, for replays, which nobody runs in a cluster."""

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "HOME": f"/{CACHE}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "GPUFLEET_KERNEL_CACHE": f"/{CACHE}/kernels",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CACHE_LOCATOR_CLASSES": "gpufleet_kernels.ImageKernels",
}
"""What every process in the image is told."""

COMMAND = f"""\
#!/usr/bin/{PYTHON}
import sys

from gpufleet.cli.main import main

sys.exit(main())
"""
FILES = {
    "etc/passwd": f"root:x:0:0::/:/nologin\ngpufleet:x:{NONROOT}:{NONROOT}::/{CACHE}:/nologin\n",
    "etc/group": f"root:x:0:\ngpufleet:x:{NONROOT}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "usr/local/bin/gpufleet": COMMAND,
}


def add_wheel(root: Path, scratch: Path) -> None:
    """Build the wheel of this checkout and put it below ``root``, with the files that are the image's own."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", f"--wheel-dir={scratch}", str(PROJECT)]
    output_of(command, "building the wheel")
    (wheel,) = scratch.glob("gpufleet-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            root / SITE, [name for name in archive.namelist() if not name.startswith(f"{TRACES}/")]
        )
    shutil.copy(INSIDE / "gpufleet_kernels.py", root / SITE)
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A new file: one of this name may be a link into the base.
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "usr/local/bin/gpufleet").chmod(0o755)
    for name in (CACHE, "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)


def add_kernels(root: Path, kept: Path) -> None:
    """Put the kernels below ``root``: those in ``kept`` if they are of this engine, else new ones."""
    digest = in_root(
        root, "from gpufleet.engine.arrays.compiled import sources_digest; print(sources_digest())"
    )
    before = kept / digest.strip()
    target = root / KERNELS / digest.strip()
    if not before.is_dir():
        in_root(root, "from gpufleet.engine.compile import main; main()")
        if not any(target.rglob("*.nbi")):
            raise ImageError(f"no kernel came into {target}")
        unfinished = kept / f".{digest.strip()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(target, unfinished)
        unfinished.rename(before)
        return
    shutil.copytree(before, target)


def in_root(root: Path, script: str) -> str:
    """What a Python script prints that runs inside the image, where its cache is the image's own."""
    if os.geteuid() != 0:
        raise ImageError("the kernels are compiled inside the image, which needs root (chroot)")
    environment = {**ENVIRONMENT, "GPUFLEET_KERNEL_CACHE": f"/{KERNELS}", "PYTHONHASHSEED": "0"}
    del environment["NUMBA_CACHE_LOCATOR_CLASSES"]
    command = [
        *_same_addresses(),
        shutil.which("chroot") or "/usr/sbin/chroot",
        str(root),
        f"/usr/bin/{PYTHON}",
        "-c",
        script,
    ]
    return output_of(command, "running Python inside the image", environment=environment)


def _same_addresses() -> list[str]:
    """Runs a program at the same addresses each time, where that is allowed: numba writes some down."""
    command = ["setarch", "--addr-no-randomize"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return command if done.returncode == 0 else []


def compile_modules(root: Path, *folders: str, runs_here: bool = True) -> None:
    """Compile modules to bytecode that is never compared with its source: nothing in the image changes.

    The image's Python does it, or this one where programs of the image do not run here: bytecode is the same
    on every machine. It bears the paths that modules have inside.
    """
    if not runs_here:
        for folder in folders:
            compileall.compile_dir(
                root / folder.lstrip("/"),
                quiet=2,
                stripdir=str(root),
                prependdir="/",
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        return
    script = (
        "import compileall, py_compile\n"
        f"for folder in {folders!r}:\n"
        "    compileall.compile_dir(folder, quiet=2,\n"
        "        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\n"
    )
    in_root(root, script)
