"""The node's driver surely does not run the CUDA of the pod's images."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.cuda_compatibility import (
    DRIVER_FEATURES,
    DriverVersion,
    Toolkit,
    supports,
    write_driver,
)
from gpufleet.model.phrases import listed

BIT = 1 << 30


def finding(case: Case) -> Finding:
    """The version of CUDA that is needed, the drivers that are there, and the oldest that would do."""
    needed = set(case.shape.features) & DRIVER_FEATURES
    lacking = {one for node in case.near for one in needed - set(node.features)}
    refused = list(case.details.needed_toolkits(case.pod.uid, lacking))
    found = {node.name: case.details.driver(node.name) for node in case.near}
    drivers = {name: driver for name, driver in found.items() if driver is not None}
    nodes = listed(f"{name} ({write_driver(driver)})" for name, driver in drivers.items())
    wanted = (
        listed(f"CUDA {one.toolkit} ({one.told_by})" for one in refused) or f"a {listed(sorted(lacking))}"
    )
    too_old = "the driver of {} is too old" if len(drivers or found) == 1 else "the drivers of {} are too old"
    why = f"it needs {wanted}, and {too_old.format(nodes or case.near_names)} for that"
    least = _least([one.toolkit for one in refused], list(drivers.values()))
    ways = [f"update the driver to {one} or newer" for one in least]
    ways.append("use an image of an older CUDA")
    name = case.details.names.cuda_version
    if name:
        ways.append(f'annotate the pod with {name}: "any" if the image runs there after all')
    return Finding(why, tuple(ways))


def _least(refused: list[Toolkit], drivers: list[DriverVersion]) -> list[str]:
    """The driver that would run all of them: the newest of those that each needs at least."""
    oldest = min(drivers, default=None)
    if oldest is None:
        return []
    verdicts = (supports(oldest, one, forward_compatible=False) for one in refused)
    return sorted({verdict.least_driver for verdict in verdicts if verdict.least_driver})[-1:]


REASON = NodeReason(
    "cuda-driver",
    BIT,
    height=12,
    kind=Kind.CHANGE,
    words="with a driver that is too old for the CUDA of the pod",
    remedy="their driver were newer",
    finding=finding,
)
