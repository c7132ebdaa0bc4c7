"""Labels of local storage, read from files as Linux and the drivers have them."""

from pathlib import Path

from gpufleet.agent.labels.storage import storage_labels

# 3.84 TB as `blockdev --getsz` counts them, in sectors of 512 bytes: 3576 GiB.
SECTORS = 7_501_476_528
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan  7 2025\n"
SETTINGS = 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\n'
DIRECT = {
    "proc/driver/nvidia/version": OPEN,
    "proc/driver/nvidia/params": SETTINGS,
    "sys/module/nvme_core/parameters/multipath": "N\n",
}


def machine(root: Path, files: dict[str, str]) -> Path:
    """A machine's files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def disk(name: str, model: str = "SAMSUNG MZWLR3T8HBLS", transport: str = "pcie") -> dict[str, str]:
    """A disk of 3.84 TB."""
    place = f"sys/block/{name}"
    return {
        f"{place}/size": f"{SECTORS}\n",
        f"{place}/device/model": f"{model}   \n",
        f"{place}/device/transport": f"{transport}\n",
    }


def labels(root: Path, release: str = "6.8.0-45-generic", processor: str = "x86_64") -> dict[str, str]:
    return storage_labels(root, release, processor)


def test_disks_of_the_machine_itself_count(tmp_path: Path) -> None:
    of_several_paths = {
        "sys/block/nvme5n1/size": f"{SECTORS}\n",
        "sys/block/nvme5n1/device/nvme5/transport": "pcie\n",
    }
    files = {
        **disk("nvme0n1"),
        **disk("nvme1n1", "Amazon EC2 NVMe Instance Storage"),
        **disk("nvme2n1", "Amazon Elastic Block Store"),
        **disk("nvme3n1", transport="tcp"),
        **of_several_paths,
        "sys/block/nvme0n1p1/size": "1",
        "sys/block/sda/size": "1000",
    }
    assert labels(machine(tmp_path, files)) == {
        "gpufleet.io/nvme-disks": "3",
        "gpufleet.io/nvme-gib": str(3 * SECTORS * 512 // 2**30),
    }


def test_a_machine_without_any_of_it_has_no_label(tmp_path: Path) -> None:
    assert labels(tmp_path) == {}


def test_direct_reads_go_by_nvidias_module_or_by_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "module/sys/module/nvidia_fs").mkdir(parents=True)
    assert labels(tmp_path / "module") == {"gpufleet.io/gpudirect-storage": "nvidia-fs"}
    direct = machine(tmp_path / "kernel", DIRECT)
    assert labels(direct) == {"gpufleet.io/gpudirect-storage": "p2pdma"}
    assert labels(direct, release="6.1.0") == {}
    changed = [
        {**DIRECT, "proc/driver/nvidia/version": CLOSED},
        {**DIRECT, "proc/driver/nvidia/version": OPEN.replace("570", "560")},
        {**DIRECT, "sys/module/nvme_core/parameters/multipath": "Y\n"},
        {**DIRECT, "proc/driver/nvidia/params": 'RegistryDwords: ""\n'},
    ]
    for number, files in enumerate(changed):
        assert labels(machine(tmp_path / str(number), files)) == {}
    assert labels(tmp_path / "3", processor="aarch64") == {"gpufleet.io/gpudirect-storage": "p2pdma"}
