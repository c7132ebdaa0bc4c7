"""Our locked Python packages, without those that only a replay, its report or top needs."""

import re
import shutil
import sys
from pathlib import Path

from image.command import output_of
from image.debian import PYTHON

LOCK = Path(__file__).parents[1] / "requirements.txt"
SITE = f"usr/local/lib/{PYTHON}/dist-packages"
"""Where Debian's Python looks for packages that are not Debian's."""

LEFT_OUT = {
    "jinja2": "the replay's report",
    "markdown-it-py": "rich",
    "markupsafe": "jinja2",
    "mdurl": "rich",
    "pyarrow": "traces in Parquet",
    "pygments": "rich",
    "rich": "the tables of the replay, and the views of top",
    "vl-convert-python": "the replay's report",
}
"""Who needs it, by package; together they are two thirds of all bytes."""

PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24", "manylinux2014")
UNWANTED = ("bin", "numba/tests", "numba/cuda/tests", "llvmlite/tests")
PACKAGES_WITH_TESTS = ("numpy", "prometheus_client", "google")


def wanted(lock: str) -> str:
    """The lock's entries of what shall be in the image, with their hashes."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock)
    kept = [entry for entry in entries if _name(entry) not in LEFT_OUT and not entry.startswith("#")]
    return "\n".join(kept) + "\n"


def install(root: Path, scratch: Path, machine: str) -> None:
    """Put the packages for this kind of machine below ``root``, whatever Python runs this."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(wanted(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    site = root / SITE
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"]
    command += ["--disable-pip-version-check"]
    command += [
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        "--disable-pip-version-check",
    ]
    command += [f"--python-version={PYTHON.removeprefix('python')}", f"--target={site}"]
    command += [f"--platform={platform}_{machine}" for platform in PLATFORMS]
    output_of([*command, "--requirement", requirements], "installing the locked Python packages")
    for name in UNWANTED:
        shutil.rmtree(site / name, ignore_errors=True)
    for package in PACKAGES_WITH_TESTS:
        _remove_tests(site / package)


def _remove_tests(folder: Path) -> None:
    """Packages bring their own tests along."""
    for path in sorted(folder.rglob("tests")):
        if path.is_dir():
            shutil.rmtree(path)


def _name(entry: str) -> str:
    return entry.partition("==")[0].strip().lower()
