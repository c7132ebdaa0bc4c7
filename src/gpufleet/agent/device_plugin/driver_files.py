"""The files of NVIDIA's driver that a container needs to use a GPU: libraries, programs, firmware, sockets.

They are what the driver installed on the machine under its own version, so they are looked for by it in
the places where distributions put libraries. A container finds libraries by its own index, which NVIDIA's
``nvidia-cdi-hook`` brings up to date where the machine has it. Where not, each library is shown under the
name by which programs load it too, which serves images whose system looks into the same folder.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.cdi import READ_ONLY, CdiEdits, CdiHook, CdiMount

# Where Debian and Red Hat put libraries; a link to another folder is found once.
LIBRARIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
)
# What containers run of the driver, where it is installed.
PROGRAMS = (
    "usr/bin/nvidia-smi",
    "usr/bin/nvidia-debugdump",
    "usr/bin/nvidia-persistenced",
    "usr/bin/nvidia-cuda-mps-control",
    "usr/bin/nvidia-cuda-mps-server",
)
# By which the driver's library talks to daemons of the node.
SOCKETS = ("run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket")
# The first that is there counts: installed as a package, or by NVIDIA's operator.
HOOKS = ("usr/bin/nvidia-cdi-hook", "usr/local/nvidia/toolkit/nvidia-cdi-hook")


class Root(msgspec.Struct, frozen=True):
    """A folder of the machine in which a driver or its device nodes are.

    ``seen`` is where this process sees it, ``host`` where the container runtime does.
    """

    seen: Path = Path("/")
    host: str = "/"


def driver_edits(version: str, root: Root) -> CdiEdits:
    """What shows this version of the driver to a container; empty where nothing of it is there."""
    seen, host = root.seen, root.host.rstrip("/")
    libraries = list(_libraries(version, seen))
    # Without a library of the module's version the other files are of another driver and would do harm.
    if not libraries:
        return CdiEdits()
    hook = next((path for path in HOOKS if (seen / path).exists()), None)
    found = [*libraries, *(path for path in (*PROGRAMS, *SOCKETS) if (seen / path).exists())]
    found += [str(path.relative_to(seen)) for path in sorted(_firmware(version, seen))]
    mounts = [CdiMount(f"{host}/{path}", f"/{path}", READ_ONLY) for path in found]
    # Programs ask for libcuda.so.1; without a hook that makes such links each is a mount of its own.
    if hook is None:
        mounts += [
            CdiMount(f"{host}/{path}", f"/{path.removesuffix(version)}1", READ_ONLY) for path in libraries
        ]
        return CdiEdits(mounts=tuple(mounts))
    folders = dict.fromkeys(f"/{path.rpartition('/')[0]}" for path in libraries)
    arguments = [argument for folder in folders for argument in ("--folder", folder)]
    indexed = CdiHook("createContainer", f"{host}/{hook}", ("nvidia-cdi-hook", "update-ldcache", *arguments))
    return CdiEdits(mounts=tuple(mounts), hooks=(indexed,))


def _libraries(version: str, seen: Path) -> Iterator[str]:
    """The driver's libraries, each file once, however many folders lead to it."""
    known: set[Path] = set()
    for folder in LIBRARIES:
        for path in sorted((seen / folder).glob(f"lib*.so.{version}")):
            # On many systems /lib64 and /usr/lib64 are one folder.
            real = path.resolve()
            if real not in known:
                known.add(real)
                yield f"{folder}/{path.name}"


def _firmware(version: str, seen: Path) -> Iterator[Path]:
    folders = (seen / "lib/firmware/nvidia" / version, seen / "usr/lib/firmware/nvidia" / version)
    there = next((folder for folder in folders if folder.is_dir()), None)
    yield from () if there is None else there.glob("gsp*.bin")
