"""The settings of NVIDIA's device plugin, with its defaults for what a file leaves out."""

import msgspec

from gpufleet.devices.documents import Notice


class Replicated(msgspec.Struct, frozen=True):
    """A resource's name and how often each of its devices is offered."""

    name: str
    replicas: int


class Replication(msgspec.Struct, frozen=True):
    """All that is replicated, and how: in turns, or by MPS."""

    mps: bool
    resources: tuple[Replicated, ...]
    renamed: bool
    one_at_most: bool


class Discovery(msgspec.Struct, frozen=True):
    """How node labels are written. ``every_s`` is infinite where they are written once."""

    timestamp: bool = True
    every_s: float = 60.0
    output_file: str = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
    machine_type_file: str = "/sys/class/dmi/id/product_name"


class PluginConfig(msgspec.Struct, frozen=True):
    """The settings of a file, with the plugin's defaults for what it leaves out."""

    mig_strategy: str = "none"
    mps_root: str = "/run/nvidia/mps"
    driver_root: str = "/"
    dev_root: str = "/"
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    node_feature_api: bool = False
    pass_device_specs: bool = False
    list_strategies: tuple[str, ...] = ("envvar",)
    ids_by_index: bool = False
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    container_driver_root: str = "/driver-root"
    packed: bool = False
    discovery: Discovery = Discovery()
    replication: Replication | None = None
    imex_channels: tuple[int, ...] = ()
    imex_required: bool = False
    notices: tuple[Notice, ...] = ()


PLUGIN_DEFAULT = PluginConfig()
"""The plugin's own defaults: a cut GPU is offered as if it were whole."""

FOUND_DEFAULT = PluginConfig(mig_strategy="mixed")
"""Those for a ConfigMap that is found by its name: it leaves cut GPUs what they are without it, instances by
their profiles. Guides to MIG set the strategy in the values of a chart, which are not in the ConfigMap.
"""
