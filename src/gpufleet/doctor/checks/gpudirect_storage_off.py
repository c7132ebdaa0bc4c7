"""GPU work that selects nodes with GPUDirect Storage, and asks for none of the devices it goes through."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.kube.keys import GPUDIRECT_STORAGE
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.pods import PodTemplate

VARIABLE, DEVICES = "NVIDIA_GDS", "/dev/nvidia-fs"
"""What NVIDIA's container toolkit gives the devices for, and where they are."""

_ON = ("enabled", "true")


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The workloads that would copy through memory without a word."""
    selecting = [
        one for one in facts.gpu_workloads if any(_selects(template) for template in one.manifest.templates)
    ]
    lacking = [one for one in selecting if not all(_has_devices(its) for its in one.manifest.templates)]
    if lacking:
        yield _failure(lacking)
    elif selecting:
        yield Good("work that selects GPUDirect Storage has its devices")


def _selects(template: PodTemplate) -> bool:
    """True if each way to a node asks for the label."""
    ways = template.selection
    return bool(ways) and all(any(one.key == GPUDIRECT_STORAGE for one in way) for way in ways)


def _has_devices(template: PodTemplate) -> bool:
    """True if a container with GPUs gets the devices, or nothing of the template selects the label."""
    with_gpus = [one for one in template.all_containers if one.has_gpu]
    return not _selects(template) or any(_sees(template, one) for one in with_gpus)


def _sees(template: PodTemplate, container: Container) -> bool:
    variable = container.variable(VARIABLE)
    if variable is not None and variable.value in _ON:
        return True
    if container.field.at("securityContext", "privileged").is_true:
        return True
    paths = {one.name: one.host_path or "" for one in template.volumes}
    return any(paths.get(one.volume, "").startswith((DEVICES, "/dev/")) for one in container.mounts)


def _failure(lacking: list[Workload]) -> Failure:
    titles = tuple(one.title for one in lacking)
    return Failure(
        f"{listed(titles)}: selects {GPUDIRECT_STORAGE} and asks for no {DEVICES}*",
        titles,
        tuple(f"{one}: {VARIABLE} is not enabled, and no volume has the devices" for one in titles),
        (
            Remedy(
                f'set {VARIABLE} to "enabled" for the container with GPUs',
                get_command(lacking[0].manifest).replace("kubectl get", "kubectl edit", 1),
            ),
        ),
    )


CHECK = Check(
    "gpudirect-storage-off",
    Point.PLACING,
    Layer.PRACTICE,
    "Work that selects GPUDirect Storage reads directly",
    "Without the devices the library copies through memory and says nothing: the node is chosen for nothing.",
    judge,
    (),
    Grade.RISK,
    written=True,
)
