"""The compute driver's view of AMD's GPUs: a node for each GPU, or for each partition of one.

Below /sys/class/kfd/kfd/topology/nodes each node has a file of properties, its banks of memory and its
links; processors are nodes too. Where a GPU is partitioned, its nodes have the number of the partition
in the top four bits of ``location_id``, or, in some releases, in its function bits.
"""

from pathlib import Path

import msgspec

from gpufleet.devices.sysfs import MIB, entries, table

XGMI = 11
"""The type of a link of XGMI."""


class KfdNode(msgspec.Struct, frozen=True):
    """A GPU, or a partition of one, as the compute driver counts it."""

    number: int
    domain: int
    location: int
    """Bus, device and function, as PCI packs them into 16 bits."""
    render_minor: int
    compute_units: int | None
    simd_units: int
    architecture: str | None
    memory_mib: int | None


def kfd_nodes(sysfs: Path) -> list[KfdNode]:
    """The nodes that are GPUs."""
    folders = entries(sysfs / "class/kfd/kfd/topology/nodes", "[0-9]+")
    found = ((folder, table(folder / "properties")) for folder in folders)
    # Processors are nodes, too, and have no SIMD units.
    return [_node(folder, values) for folder, values in found if values.get("simd_count")]


def xgmi_links(sysfs: Path, nodes: list[KfdNode]) -> list[tuple[int, int]]:
    """Which nodes an XGMI link joins.

    Partitions are joined to every other partition of the machine, so there may be thousands of files.
    """
    found = []
    for node in nodes:
        folder = sysfs / f"class/kfd/kfd/topology/nodes/{node.number}/io_links"
        links = (table(path / "properties") for path in entries(folder, "[0-9]+"))
        far = (link.get("node_to") for link in links if link.get("type") == XGMI)
        found += [(node.number, number) for number in far if number is not None]
    return found


def _node(folder: Path, values: dict[str, int]) -> KfdNode:
    banks = [
        size
        for path in entries(folder / "mem_banks", "[0-9]+")
        if (size := table(path / "properties").get("size_in_bytes")) is not None
    ]
    per_unit = values.get("simd_per_cu")
    return KfdNode(
        int(folder.name),
        values.get("domain", 0),
        # Above the 16 bits of bus, device and function newer kernels write the number of a partition.
        values.get("location_id", 0) & 0xFFFF,
        values.get("drm_render_minor", -1),
        # The file has no count of compute units, only this and how many there are in each.
        values["simd_count"] // per_unit if per_unit else None,
        values["simd_count"],
        _architecture(values.get("gfx_target_version")),
        sum(banks) // MIB if banks else None,
    )


def _architecture(version: int | None) -> str | None:
    """The compiler's name of a version: 90010 is gfx90a."""
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
