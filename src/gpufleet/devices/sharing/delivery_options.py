"""How NVIDIA's config file wants devices to be handed to containers."""

import msgspec

from gpufleet.devices.sharing.plugin_config import PluginConfig


class DeliveryOptions(msgspec.Struct, frozen=True):
    """The settings of a config file v1 that concern delivery, under their meaning.

    ``list_strategies`` are ``envvar``, ``volume-mounts``, ``cdi-annotations`` and ``cdi-cri``, all of them at
    once where several are named. ``ids_by_index`` puts indices in place of UUIDs into environment and mounts.
    ``device_specs`` adds the device nodes themselves. ``driver_root`` and ``dev_root`` are the machine's
    folders of the driver and of its device nodes, ``container_driver_root`` where the agent sees the former.
    ``packed`` prefers replicas of a GPU that is in use already. ``mps_root`` is where the pipes of MPS are.
    """

    list_strategies: tuple[str, ...]
    ids_by_index: bool = False
    device_specs: bool = False
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    driver_root: str = "/"
    dev_root: str = "/"
    container_driver_root: str = "/driver-root"
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    packed: bool = False
    imex_channels: tuple[int, ...] = ()
    imex_required: bool = False
    mps_root: str = "/run/nvidia/mps"


def delivery_options(config: PluginConfig) -> DeliveryOptions:
    """The part of a config file that concerns delivery, with the plugin's defaults for what it leaves out."""
    return DeliveryOptions(
        list_strategies=config.list_strategies,
        ids_by_index=config.ids_by_index,
        device_specs=config.pass_device_specs,
        cdi_annotation_prefix=config.cdi_annotation_prefix,
        driver_root=config.driver_root,
        dev_root=config.dev_root,
        container_driver_root=config.container_driver_root,
        gdrcopy=config.gdrcopy,
        gds=config.gds,
        mofed=config.mofed,
        packed=config.packed,
        imex_channels=config.imex_channels,
        imex_required=config.imex_required,
        mps_root=config.mps_root,
    )
