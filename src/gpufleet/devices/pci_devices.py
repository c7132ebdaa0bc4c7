"""The PCI ids by which config files of mig-parted name models of cards.

A report has the model alone, and a model may have several ids. Read in the default config of mig-parted 0.15.
"""

from collections.abc import Mapping

_MAKER = 0x10DE
"""NVIDIA's number, which stands behind that of the device."""

_DEVICES: Mapping[str, tuple[int, ...]] = {
    "A30": (0x20B7,),
    "A100-40GB": (0x20B0, 0x20B1, 0x20F1, 0x20F6),
    "A100-80GB": (0x20B2, 0x20B5, 0x20F3, 0x20F5),
    "H100-80GB": (0x2330, 0x2331, 0x2322),
    "H100-94GB": (0x2321, 0x233A),
    "H200": (0x2335, 0x233B),
    "GH200-144GB": (0x2348,),
    "B200": (0x2901,),
    "B300": (0x3182,),
    "GB200": (0x2941,),
    "GB300": (0x31C2,),
    "RTX-PRO-6000": (0x2BB5,),
}


def pci_devices(model: str) -> frozenset[int]:
    """The ids that a card of this model may have; empty where they are not known."""
    return frozenset((device << 16) | _MAKER for device in _DEVICES.get(model, ()))
