"""Trees of files as the kernel shows GPUs, written below a temporary folder."""

from pathlib import Path

from gpufleet.devices.drm_cards import Roots

HOST = "devices/pci0000:00/0000:00:01.0"


class KernelFiles:
    """A machine's /sys and /dev with the cards that a test puts there."""

    def __init__(self, folder: Path, kernel_release: str = "6.18.0") -> None:
        self.sysfs = folder / "sys"
        self.dev = folder / "dev"
        (self.sysfs / "class/drm").mkdir(parents=True)
        (self.dev / "dri").mkdir(parents=True)
        self.roots = Roots(self.sysfs, self.dev, kernel_release)

    def write(self, path: str, value: object) -> None:
        """One file below /sys."""
        file = self.sysfs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")

    def load(self, driver: str, version: str | None = None) -> None:
        """A driver is loaded; one that comes with the kernel has no version of its own."""
        (self.sysfs / "module" / driver).mkdir(parents=True, exist_ok=True)
        if version is not None:
            self.write(f"module/{driver}/version", version)

    def card(
        self, number: int, device: str, driver: str, files: dict[str, object], render: bool = True
    ) -> Path:
        """A card whose device lies at a path below /sys, with these files in the device's folder."""
        self.load(driver)
        folder = self.sysfs / device
        (folder / f"drm/card{number}").mkdir(parents=True)
        names = [f"card{number}"]
        if render:
            names.append(f"renderD{number + 128}")
            (folder / f"drm/renderD{number + 128}").mkdir()
        for name in names:
            (self.dev / "dri" / name).touch()
        for path, value in files.items():
            self.write(f"{device}/{path}", value)
        bus = self.sysfs / "bus/pci/drivers" / driver
        bus.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(bus)
        for name in names:
            (self.sysfs / "class/drm" / name).symlink_to(folder / "drm" / name)
            (folder / "drm" / name / "device").symlink_to(folder)
        return folder

    def remove(self, number: int) -> None:
        """The card is gone from the bus."""
        (self.sysfs / "class/drm" / f"card{number}").unlink()
