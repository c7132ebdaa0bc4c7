"""GPU053: a container asks for a GPU by a name that no device plugin offers, such as nvidia.com/gpus."""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import OLD_NVIDIA_GPU, is_card_name, meant_gpu
from gpufleet.lint.edits.edits import Edit, Fix, Remove, Rename
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_workload_pods
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding]:
    """Each resource of a container whose name is a slip for that of a GPU."""
    for template in manifest.templates:
        if not template.is_gpu_infrastructure:
            for container in template.all_containers:
                yield from _of_container(container, context.cluster)


def misnamed(container: Container) -> dict[str, str]:
    """The resources that are no GPUs by their names, each with the one that was probably meant."""
    asked = container.asked_names
    # The name of before device plugins was right once: GPU020 speaks of it.
    slips = {name: meant_gpu(name) for name in asked if name != OLD_NVIDIA_GPU}
    return {name: meant for name, meant in slips.items() if meant is not None}


def _of_container(container: Container, cluster: Cluster | None) -> Iterator[RuleFinding]:
    nodes = cluster.nodes if cluster else ()
    for name, meant in misnamed(container).items():
        if any(one.allocatable(name) is not None for one in nodes):
            # Its device plugin was told to offer the name.
            continue
        if is_card_name(name):
            yield _of_card(container, name, meant)
            continue
        places = [container.field.at("resources", part) for part in ("limits", "requests")]
        there = [one for one in places if one.at(name).exists]
        edits: list[Edit] = [
            Remove(one.at(name)) if one.at(meant).exists else Rename(one.at(name), meant) for one in there
        ]
        yield RuleFinding(
            there[0].at(name),
            f"container {container.name} asks for {name}, which is no name of a GPU",
            f"write {meant}",
            Fix(f"write {meant} instead of {name}", tuple(edits)),
            # The server refuses a name without a domain; one with a domain may be offered.
            None if "/" not in name or nodes else Severity.WARNING,
        )


def _of_card(container: Container, name: str, meant: str) -> RuleFinding:
    """A kind of card as a resource, which some clusters do offer: no fix, as it would break the pod there."""
    return RuleFinding(
        container.field.at("resources", "limits" if name in container.limits else "requests", name),
        f"container {container.name} asks for {name}, which device plugins offer only where they are told to",
        f"where no node offers it, write {meant} and choose the card by a label of nodes",
        severity=Severity.WARNING,
    )


RULE = Rule(
    "GPU053", "Resource that is no GPU", Severity.ERROR, check, concerns=has_workload_pods, fixes=True
)
