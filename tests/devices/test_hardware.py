"""Whose GPUs are in a machine is told by its PCI bus and its device nodes."""

from pathlib import Path

from gpufleet.devices.hardware import vendors
from gpufleet.model.gpu_catalogue import Vendor


def a_machine(folder: Path, *devices: tuple[str, str, str]) -> Path:
    for address, vendor, kind in devices:
        place = folder / "sys/bus/pci/devices" / address
        place.mkdir(parents=True)
        (place / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (place / "class").write_text(f"{kind}\n", encoding="ascii")
    (folder / "dev").mkdir()
    return folder


def found(folder: Path) -> frozenset[Vendor]:
    return vendors(folder / "sys", folder / "dev")


def test_display_controllers_and_accelerators_count(tmp_path: Path) -> None:
    machine = a_machine(
        tmp_path,
        ("0000:17:00.0", "0x10de", "0x030200"),
        ("0000:9b:00.0", "0x1002", "0x120000"),
        ("0000:3a:00.0", "0x8086", "0x038000"),
    )
    assert found(machine) == {Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL}


def test_other_devices_of_the_same_makers_do_not(tmp_path: Path) -> None:
    machine = a_machine(
        tmp_path,
        ("0000:17:00.1", "0x10de", "0x040300"),
        ("0000:00:02.0", "0x8086", "0x030000"),
        ("0000:01:00.0", "0x8086", "0x020000"),
        ("0000:02:00.0", "0x1a03", "0x030000"),
    )
    assert found(machine) == frozenset()


def test_a_device_node_of_a_driver_counts_where_the_bus_is_not_seen(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    (machine / "dev/nvidiactl").touch()
    assert found(machine) == {Vendor.NVIDIA}


def test_a_machine_without_any_has_none(tmp_path: Path) -> None:
    assert found(tmp_path) == frozenset()
