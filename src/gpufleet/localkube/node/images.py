"""The two images that a real node always has, made here from one static busybox: no registry is asked.

``BUSYBOX`` has a shell and the usual small programs, for pods that try something out; ``PAUSE`` is what holds
a pod's namespaces. They are imported into containerd when the node starts (`first_process`), and so are the
stand-ins for drivers (`driver_stand_ins`).
"""

import hashlib
import io
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_beginning, read_regular
from gpufleet.localkube.processes.process_errors import ProgramsMissingError
from gpufleet.localkube.programs.downloading import ARCHITECTURES

BUSYBOX_BYTES_MAX = 64 << 20
"""A static busybox has one or two megabytes."""

BUSYBOX = "gpufleet.local/busybox:1"
PAUSE = "gpufleet.local/pause:1"
# The longest that busybox takes: a pause until the pod ends.
SLEEP = ("/bin/sleep", "2147483647")
ELF_INTERPRETER = 3
"""PT_INTERP of elf.h: a program with such a segment needs libraries, which the image lacks."""

ARCHIVE, DRIVERS_ARCHIVE = "images.tar", "driver-stand-ins.tar"
# Programs of an image look up their user there.
ACCOUNTS = {"etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "etc/group": b"root:x:0:\n"}
FOLDERS = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777}


COMMANDS: Mapping[str, tuple[str, ...]] = {BUSYBOX: ("/bin/sh",), PAUSE: SLEEP}


def write_archive(busybox: Path, archive: Path, commands: Mapping[str, tuple[str, ...]] = COMMANDS) -> None:
    """Write images as an archive that `ctr images import` takes: of each name, what it runs by itself."""
    check_static(busybox)
    layer = shell_layer(busybox)
    configs = {name: _config(layer, command) for name, command in commands.items()}
    manifest = [
        {"Config": _file_name(config), "RepoTags": [name], "Layers": ["layer.tar"]}
        for name, config in configs.items()
    ]
    with tarfile.open(archive, "w") as packed:
        _add(packed, "layer.tar", layer)
        for config in configs.values():
            _add(packed, _file_name(config), config)
        _add(packed, "manifest.json", msgspec.json.encode(manifest))


def check_static(program: Path) -> None:
    """ProgramsMissingError if this program needs libraries, which the image would not have."""
    if ELF_INTERPRETER in _segment_types(program):
        raise ProgramsMissingError(
            f"{program} needs libraries, so no image can be made of it alone; install a static one "
            "(Debian's package is busybox-static), or put it into the folder that --binaries names"
        )


def _segment_types(program: Path) -> list[int]:
    """The types of the parts that a 64-bit ELF program is loaded as; none if it is no such program."""
    head = read_beginning(program, 4096)
    if head[:5] != b"\x7fELF\x02":
        return []
    # e_phoff, e_phentsize and e_phnum of the ELF header.
    start = int.from_bytes(head[32:40], "little")
    size = int.from_bytes(head[54:56], "little")
    count = int.from_bytes(head[56:58], "little")
    return [int.from_bytes(head[at : at + 4], "little") for at in range(start, start + size * count, size)]


def shell_layer(busybox: Path) -> bytes:
    """The files of the images: busybox under all of its names."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, mode in FOLDERS.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, content in ACCOUNTS.items():
            _add(archive, name, content)
        _add(archive, "bin/busybox", read_regular(busybox, BUSYBOX_BYTES_MAX), 0o755)
        for applet in listed.stdout.split():
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    return packed.getvalue()


def _config(layer: bytes, command: tuple[str, ...]) -> bytes:
    digest = hashlib.sha256(layer).hexdigest()
    return msgspec.json.encode(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    )


def _file_name(config: bytes) -> str:
    return f"{hashlib.sha256(config).hexdigest()}.json"


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
