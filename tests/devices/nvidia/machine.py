"""A machine with NVIDIA's GPUs, as the fake library tells it.

``build`` compiles the library, ``Machine`` writes the state that it answers from. The library is loaded
by nvidia-ml-py itself: by name, from the folder that LD_LIBRARY_PATH names in a process of its own, or
because a library of that name is in the process already (``load``), which the dynamic linker then hands
out for the name.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

from gpufleet.model.identifiers import DeviceId
from tests.lacking import lacking

SOURCES = Path(__file__).parent.parent / "fake_nvml"
VERSION = "580.95.05"
STATE = "FAKE_NVML_STATE"
NO_INSTANCE = 0xFFFFFFFF
XID = 0x8
EVERY_EVENT = 0xFF8A
"""All that a driver of today reports and that we ask for."""

H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory": "81559 551 1000",
    "capability": "9.0",
    "cores": 16896,
    "architecture": 9,
    "brand": 14,
    "mig_mode": 0,
    "busy": 60,
    "memory_busy": 20,
    "encoder": 0,
    "decoder": 3,
    "power_mw": 351_500,
    "energy_mj": 7_000_000,
    "celsius": 45,
    "sm_mhz": 1980,
    "memory_mhz": 2619,
    "clock_events": 0x24,
    "replays": 2,
    "pcie_width": 16,
    "slowdown_celsius": 87,
    "remapped": "3 1 1 0",
    "uncorrected": 4,
    "events": EVERY_EVENT,
    "compute": "",
    "graphics": "",
    "process_busy": "",
    "gpm": 1,
    "gpm.1": 50.0,
    "gpm.5": 25.0,
    "gpm.10": 12.5,
    "gpm.20": 2.0,
    "gpm.21": 3.0,
    "field.82": "55u",
    "field.74": 5_000_000_000,
    "field.75": 7_000_000,
    "field.270": 6_000_000,
    "field.52": 11,
    "field.59": 2,
    "field.38": 3,
    "field.45": 4,
    "field.138.4294967295": 10,
    "field.139.4294967295": 20,
    "field.230": "0u",
}
"""A card that tells everything, as keys of the state. Of its memory the total, what the driver keeps, and
what is used, in MiB; cores are 132 multiprocessors of 128."""


def build(folder: Path, version: str = VERSION) -> Path:
    """The fake library in a folder; skips the test, or fails it in CI, without a compiler of C."""
    compiler = shutil.which("gcc")
    if compiler is None:
        reason = "the fake libnvidia-ml is written in C: it needs gcc (apt-get install gcc)"
        lacking(reason)
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    subprocess.run(
        [compiler, *flags, f'-DLIBRARY_VERSION="{version}"', "-o", str(library), *sources], check=True
    )
    return library


def load(library: Path) -> ctypes.CDLL:
    """Have this process find the fake where the driver's library would be found."""
    return ctypes.CDLL(str(library))


class Machine:
    """What the fake library answers, written anew at each change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self._lines: dict[str, object] = {"driver": VERSION, "module": VERSION, "cuda": 13000, "gpus": 0}
        self._events = 0
        self._write()

    def tells(self, **changes: object) -> None:
        """Set keys of the machine itself; None takes one away."""
        self._change("", changes)

    def add(self, **changes: object) -> DeviceId:
        """One more H100, with these keys different; its UUID."""
        number = self._number("gpus")
        uuid = DeviceId(f"GPU-00000000-0000-0000-0000-{number:012d}")
        place = {"uuid": uuid, "minor": number, "serial": f"165000{number}", "pci": self.pci(number)}
        self._lines["gpus"] = number + 1
        self.card(number, {**H100, **place, **changes})
        return uuid

    def card(self, number: int, keys: dict[str, object] | None = None, **changes: object) -> None:
        """Set keys of a card; None takes one away."""
        self._change(f"gpu.{number}.", {**(keys or {}), **changes})

    def pair(self, one: int, other: int, **changes: object) -> None:
        """Set what lies between two cards, the smaller number first."""
        self._change(f"pair.{one}.{other}.", changes)

    def instance(self, number: int, place: int, **changes: object) -> str:
        """An instance at a place of a card; its UUID."""
        uuid = f"MIG-00000000-0000-0000-{number:04d}-{place:012d}"
        keys = {
            "uuid": uuid,
            "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "gi": 7 + place,
            "ci": 0,
            "start": place,
            "multiprocessors": 16,
            "memory_mib": 9984,
            "copy": 1,
            "decoders": 1,
            "encoders": 0,
            "jpeg": 1,
            "ofa": 0,
            "memory": "9984 0 100",
            "compute": "",
        }
        self._change(f"gpu.{number}.mig.{place}.", {**keys, **changes})
        return uuid

    def bare(self, number: int) -> None:
        """Take everything from a card but its UUID."""
        mine = [key for key in self._lines if key.startswith(f"gpu.{number}.")]
        self.tells(**{key: None for key in mine if not key.endswith(".uuid")})

    def event(
        self, number: int, kind: int, data: int = 0, gi: int = NO_INSTANCE, ci: int = NO_INSTANCE
    ) -> None:
        """The driver reports something; of card -1 where it does not say of which."""
        self.tells(**{f"event.{self._events}": f"{number} {kind:x} {data} {gi} {ci}"})
        self._events += 1

    def file(self, path: str, text: str) -> None:
        """A file of sysfs or procfs."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="ascii")

    def numa_node(self, number: int, node: int) -> None:
        """Which node sysfs names for a card."""
        place = self.pci(number).lower().removeprefix("0000")
        self.file(f"sys/bus/pci/devices/{place}/numa_node", f"{node}\n")

    @staticmethod
    def pci(number: int) -> str:
        """The PCI address of a card, as NVML writes it."""
        return f"00000000:{0x1B + number:02X}:00.0"

    def _number(self, key: str) -> int:
        return int(str(self._lines[key]))

    def _change(self, prefix: str, changes: dict[str, object]) -> None:
        for key, value in changes.items():
            self._lines.pop(prefix + key, None)
            if value is not None:
                self._lines[prefix + key] = value
        self._write()

    def _write(self) -> None:
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{key} {value}\n" for key, value in self._lines.items()), encoding="ascii")
        new.replace(self.state)
