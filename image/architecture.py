"""The machines for which the image is built, and what Debian, Python packages and registries call them."""

import os
import sys

import msgspec

from image.debian import PYTHON
from image.errors import ImageError


class Architecture(msgspec.Struct, frozen=True):
    """One kind of machine: ``name`` for registries and Debian, ``machine`` for kernel and Python packages."""

    name: str
    machine: str

    @property
    def is_native(self) -> bool:
        """Whether programs for it run here. Only then are kernels compiled into the image."""
        return os.uname().machine == self.machine

    @property
    def problem(self) -> str | None:
        """Why no image can be built for it here; None if one can.

        Modules are compiled to bytecode by the image's Python, or for another machine by this one, which has
        to be of the same version.
        """
        this = f"python{sys.version_info.major}.{sys.version_info.minor}"
        if self.is_native or this == PYTHON:
            return None
        return f"an image for another machine ({self.name}) is built by {PYTHON}, and this is {this}"


AMD64, ARM64 = Architecture("amd64", "x86_64"), Architecture("arm64", "aarch64")
ARCHITECTURES = {one.name: one for one in (AMD64, ARM64)}


def native() -> Architecture:
    """This machine's. Raises ImageError where no image is for it."""
    for one in ARCHITECTURES.values():
        if one.is_native:
            return one
    machines = " and ".join(one.machine for one in ARCHITECTURES.values())
    raise ImageError(
        f"the image is for {machines}, and this machine is {os.uname().machine}; "
        f"--arch {AMD64.name} builds one for another machine"
    )
