"""CDI files: what a container runtime does to a container that names one of our devices.

The runtime reads all files of its folders and knows a device by "vendor/class=name", so a file that is
not there keeps a container from starting, and one file is enough to let it start. Format: Container
Device Interface 0.5.0, the first with ``hostPath`` and with names that begin with a digit. Runtimes
refuse a file with a field of a newer version than it says, so nothing newer is used.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from gpufleet.agent.state.disk import DISK, READABLE, Disk, replace_file
from gpufleet.model.model_errors import InternalError, printable

# The oldest with all that is used, as said above.
VERSION = "0.5.0"
FOLDER = Path("/var/run/cdi")
"""Where runtimes look for files that do not outlive a boot."""

_SUFFIX = ".json"
READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")
"""How a path of the node is mounted read-only."""

_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,199}")
_KIND = re.compile(r"[A-Za-z]([\w.-]*[A-Za-z0-9])?/[A-Za-z]([\w.-]*[A-Za-z0-9])?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?", re.ASCII)


class CdiNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device file in the container. Without ``major`` and ``minor`` the host's file tells them."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    permissions: str = ""


class CdiMount(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A path of the node in the container; ``options`` as of mount(8)."""

    host_path: str
    container_path: str
    options: tuple[str, ...]
    type: str = ""


class CdiHook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A program of the node that the runtime starts; ``env`` is all of its environment."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class CdiEdits(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is done to a container; ``env`` as NAME=value, in place of what the pod says."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[CdiNode, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    hooks: tuple[CdiHook, ...] = ()

    def and_then(self, other: "CdiEdits") -> "CdiEdits":
        """The edits of both; what they have in common stands there once."""
        return CdiEdits(
            tuple(dict.fromkeys((*self.env, *other.env))),
            tuple(dict.fromkeys((*self.device_nodes, *other.device_nodes))),
            tuple(dict.fromkeys((*self.mounts, *other.mounts))),
            tuple(dict.fromkeys((*self.hooks, *other.hooks))),
        )


class CdiDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device by its name within the kind."""

    name: str
    container_edits: CdiEdits = CdiEdits()


class CdiSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One file: the devices of one kind ("vendor/class"), and what is done for any of them."""

    kind: str
    devices: tuple[CdiDevice, ...]
    container_edits: CdiEdits = CdiEdits()


class _Written(CdiSpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    cdi_version: str


_DECODER = msgspec.json.Decoder(_Written)


def environment(values: Mapping[str, str]) -> tuple[str, ...]:
    """Variables as CDI writes them, in a fixed order."""
    return tuple(f"{name}={value}" for name, value in sorted(values.items()))


def qualified(kind: str, name: str) -> str:
    """How a container names a device."""
    return f"{kind}={name}"


def encode_spec(spec: CdiSpec) -> bytes:
    """The file's bytes. Raises InternalError for what no runtime would load."""
    if not _KIND.fullmatch(spec.kind) or not spec.devices:
        raise InternalError(f"no CDI kind with devices: {printable(spec.kind)}")
    for device in spec.devices:
        if not _NAME.fullmatch(device.name):
            raise InternalError(f"no name of a CDI device: {printable(device.name)}")
    written = _Written(spec.kind, spec.devices, spec.container_edits, cdi_version=VERSION)
    # On lines, as people read these files where a container does not start.
    return msgspec.json.format(msgspec.json.encode(written), indent=1)


def write_spec(folder: Path, name: str, spec: CdiSpec, disk: Disk = DISK) -> None:
    """Write a file of this name (without its ending), whole or not at all. Raises OSError."""
    data = encode_spec(spec)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(disk, _path(folder, name), data, READABLE)


def remove_spec(folder: Path, name: str, disk: Disk = DISK) -> None:
    """Remove a file; one that is not there is no error. Raises OSError."""
    disk.remove(_path(folder, name))


def read_spec(folder: Path, name: str, disk: Disk = DISK) -> CdiSpec | None:
    """What a file of ours says; None where there is none, or none that can be read. Raises OSError."""
    try:
        written = _DECODER.decode(disk.read(_path(folder, name)))
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return CdiSpec(written.kind, written.devices, written.container_edits)


def spec_names(folder: Path, prefix: str) -> Iterator[str]:
    """The names of the files that begin so, in a fixed order. Raises OSError."""
    if not folder.is_dir():
        return
    for path in sorted(folder.glob(f"{prefix}*{_SUFFIX}")):
        yield path.name.removesuffix(_SUFFIX)


def _path(folder: Path, name: str) -> Path:
    """No path ever comes from a pod; this is a second lock."""
    if not _STEM.fullmatch(name):
        raise InternalError(f"no name of a CDI file: {printable(name)}")
    return folder / f"{name}{_SUFFIX}"
