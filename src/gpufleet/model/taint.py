"""Taints of nodes and the tolerations of pods, with the rules of Kubernetes."""

import msgspec


class Taint(msgspec.Struct, frozen=True, cache_hash=True):
    """A taint: key, value and effect (NoSchedule, PreferNoSchedule or NoExecute)."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, cache_hash=True):
    """A toleration; operator Exists or Equal, empty key with Exists for all, empty effect for all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
