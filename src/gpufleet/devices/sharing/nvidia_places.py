"""Where guides to NVIDIA's device plugin and operator put the ConfigMap that says how GPUs are shared."""

NVIDIA_CONFIG_MAPS = (
    ("kube-system", "nvidia-device-plugin-config"),
    ("gpu-operator", "nvidia-device-plugin-config"),
    ("nvidia-device-plugin", "nvidia-device-plugin-config"),
    ("nvidia-device-plugin", "nvidia-plugin-configs"),
    ("kube-system", "nvidia-plugin-configs"),
    ("gpu-operator", "time-slicing-config"),
    ("kube-system", "time-slicing-config"),
    ("gpu-operator", "time-slicing-config-all"),
    ("gpu-operator", "time-slicing-config-fine"),
)
"""Namespace and name of each, the first of those that say the same before the others."""

NVIDIA_NAMES = tuple(dict.fromkeys(name for _, name in NVIDIA_CONFIG_MAPS))
"""The names, which rights are given for."""

OTHER_NAMES = (
    "device-plugin-config",
    "gpu-sharing-config",
    "gpu-time-slicing-config",
    "mps-config",
    "nvidia-device-plugin-configs",
    "nvidia-mps-config",
    "nvidia-plugin-config",
    "nvidia-sharing-config",
    "nvidia-time-slicing-config",
    "plugin-config",
    "time-slicing-configs",
)
"""Further names of guides. A plugin reads these only where it is told to; the doctor tells of unread ones."""

SOUGHT_NAMES = (*NVIDIA_NAMES, *OTHER_NAMES)
"""The names that the doctor looks for."""
