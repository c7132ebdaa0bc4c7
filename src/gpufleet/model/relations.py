"""What a pod asks of its neighbours: everything about its place that other pods decide.

It is part of the shape, because it decides where the pod may run. Most pods have none of it
(``NO_RELATIONS``), and for them the engine takes its short way.
"""

import msgspec

from gpufleet.model.data import NO_DATA, DataNeeds
from gpufleet.model.host_port import HostPort
from gpufleet.model.pod_affinity import PodTerm, PreferredPodTerm
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import Volumes


class Relations(msgspec.Struct, frozen=True, cache_hash=True):
    """Ports, affinity to and against other pods, spread, volumes, claims of devices, and data.

    ``namespace`` and ``labels`` are the pod's own, as far as its own terms and constraints can see
    them (the keys that their selectors name), so that pods which differ in other labels share a
    shape. ``device_claims`` are the pod's ResourceClaims, each as "namespace/name". ``data`` are
    the models and datasets that it reads.
    """

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[PreferredPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    volumes: Volumes = Volumes()
    device_claims: tuple[str, ...] = ()
    data: DataNeeds = NO_DATA


NO_RELATIONS = Relations()
