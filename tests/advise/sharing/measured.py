"""Workloads and fleets for the tests of sharing: each pod's use is a list of percents, one an instant."""

from collections.abc import Sequence

from gpufleet.advise.sharing.workload import SharingWorkload, workloads_of
from gpufleet.model.device import Device
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from gpufleet.usage.samples import Sample, SampleKind

A100 = "A100-80GB"
CARD_MIB = 81920
ALL_THE_TIME = 20


def workload(
    name: str,
    *pods: Sequence[int],
    kind: SampleKind = SampleKind.UNKNOWN,
    memory_mib: int = 8000,
    gpus: int = 1,
    strict: bool = False,
    model: str = A100,
) -> SharingWorkload:
    samples = [
        Sample(
            name,
            f"pod-{at}",
            instant * 60,
            use * 10,
            memory_mib,
            gpus,
            gpu_model=model,
            kind=kind,
            strict=strict,
        )
        for at, uses in enumerate(pods)
        for instant, use in enumerate(uses)
    ]
    return workloads_of(samples, 60)[0]


def busy(percent: int, *instants: int) -> list[int]:
    """Twenty instants, at these of which (all, if none is named) a pod uses so much."""
    return [percent if not instants or at in instants else 0 for at in range(ALL_THE_TIME)]


def fleet(*gpus: int, model: str = A100) -> tuple[Node, ...]:
    return tuple(
        Node(
            NodeName(f"node-{at}"),
            Resources(pods=110),
            tuple(
                Device(DeviceId(f"node-{at}/{gpu}"), GpuModelName(model), CARD_MIB) for gpu in range(count)
            ),
        )
        for at, count in enumerate(gpus)
    )
