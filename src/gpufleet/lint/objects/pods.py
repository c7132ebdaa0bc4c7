"""A pod template as rules read it: containers, volumes, selection, and whether it is about GPUs."""

from dataclasses import dataclass

from gpufleet.kube.meanings.gpu_resources import is_device
from gpufleet.kube.meanings.shares import says_share
from gpufleet.lint.objects.amounts import container_amounts, effective_amounts
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.node_selection import NodeTerms, node_terms
from gpufleet.lint.source.fields import Field
from gpufleet.model.labels import Requirement
from gpufleet.model.requests import Amounts, PodAmounts
from gpufleet.model.worked_out_once import worked_out_once

# Only device plugins and drivers mount these from the node.
PLUGIN_FOLDERS = (
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/pod-resources",
)

Asked = frozenset[tuple[str, int]]
"""GPU resources with how many devices one pod needs of each; of what is no device, at least one unit."""


@dataclass(frozen=True)
class Volume:
    """A volume of a pod."""

    field: Field
    name: str

    @property
    def host_path(self) -> str | None:
        """The path on the node, if it is one of the node."""
        return self.field.text_at("hostPath", "path")

    @property
    def empty_dir(self) -> Field:
        """The field of ``emptyDir``; it exists where the volume is one."""
        return self.field.at("emptyDir")

    @property
    def is_memory(self) -> bool:
        """Whether it is kept in memory."""
        return self.empty_dir.text_at("medium") == "Memory"


@dataclass(frozen=True)
class PodTemplate:
    """A pod, or the template of some.

    ``role`` is what the workload calls them where it has several kinds, and ``replicas`` how many
    there are as far as the manifest says; None if there is one for each node. ``model_servers`` names
    fields of the spec that hold a container outside the list of containers. ``is_completed`` is set
    where a controller adds to the pods what the manifest does not show, ``has_memory`` where that is
    memory at /dev/shm of the first container.
    """

    metadata: Field
    spec: Field
    role: str = ""
    replicas: int | None = 1
    model_servers: tuple[str, ...] = ()
    is_completed: bool = False
    has_memory: bool = False

    def shows_all_of(self, container: Container) -> bool:
        """Whether what the container gets is all written here: to some, a preset or a runtime adds mounts."""
        return not self.is_completed and container.field.key not in self.model_servers

    @worked_out_once
    def containers(self) -> tuple[Container, ...]:
        """The containers that run side by side, sidecars among them."""
        init = self.spec.items_at("initContainers")
        return (
            *(Container(one) for one in self.spec.items_at("containers")),
            *(Container(one) for name in self.model_servers if (one := self.spec.at(name)).exists),
            *(Container(one) for one in init if one.text_at("restartPolicy") == "Always"),
        )

    @worked_out_once
    def init_containers(self) -> tuple[Container, ...]:
        """The containers that end before the others start."""
        init = self.spec.items_at("initContainers")
        return tuple(Container(one, is_init=True) for one in init if one.text_at("restartPolicy") != "Always")

    @worked_out_once
    def all_containers(self) -> tuple[Container, ...]:
        """Every container."""
        return (*self.containers, *self.init_containers)

    @worked_out_once
    def volumes(self) -> tuple[Volume, ...]:
        """The pod's volumes."""
        return tuple(Volume(one, one.text_at("name") or "") for one in self.spec.items_at("volumes"))

    def volume(self, name: str) -> Volume | None:
        """The volume of this name."""
        return next((one for one in self.volumes if one.name == name), None)

    @worked_out_once
    def tolerations(self) -> tuple[Field, ...]:
        """The pod's tolerations."""
        return tuple(self.spec.items_at("tolerations"))

    @worked_out_once
    def node_terms(self) -> NodeTerms:
        """The ways in which the pod may select its node."""
        return node_terms(self.spec)

    @worked_out_once
    def selection(self) -> tuple[tuple[Requirement, ...], ...]:
        """What the pod selects, without places in the text: equal for pods that select alike."""
        return tuple(tuple(one.requirement for one in term) for term in self.node_terms)

    def annotation(self, name: str) -> str | None:
        """The annotation of this name."""
        return self.metadata.text_at("annotations", name)

    @worked_out_once
    def labels(self) -> dict[str, str]:
        """The labels of the pods."""
        return self.metadata.texts_at("labels")

    @worked_out_once
    def annotations(self) -> dict[str, str]:
        """The annotations of the pods."""
        return self.metadata.texts_at("annotations")

    @worked_out_once
    def amounts(self) -> PodAmounts:
        """All amounts as they are written."""
        servers = (self.spec.at(name) for name in self.model_servers)
        return PodAmounts(
            tuple(container_amounts(one) for one in (*self.spec.items_at("containers"), *servers)),
            tuple(container_amounts(one) for one in self.spec.items_at("initContainers")),
            self.spec.texts_at("resources", "requests"),
            self.spec.texts_at("resources", "limits"),
            self.spec.texts_at("overhead"),
        )

    @worked_out_once
    def requests(self) -> Amounts:
        """What one pod asks for altogether, by name of the resource."""
        return effective_amounts(self.amounts)

    @worked_out_once
    def asked_devices(self) -> dict[str, int]:
        """How many devices one pod asks for, by name of the resource."""
        found = ((name, count) for name, count in self.requests.items() if is_device(name))
        return {name: count.value() for name, count in found if count.nano > 0}

    @worked_out_once
    def asked_gpus(self) -> Asked:
        """The GPU resources that one pod needs, and how much of each."""
        names = {name for one in self.all_containers for name in one.gpu_names}
        return frozenset((name, self.asked_devices.get(name, 1)) for name in names)

    @worked_out_once
    def asks_for_gpu(self) -> bool:
        """Whether it is given a GPU or a part of one, in whichever words."""
        return (
            any(one.has_gpu for one in self.all_containers)
            or bool(self.spec.items_at("resourceClaims"))
            or says_share(self.labels, self.annotations)
        )

    @worked_out_once
    def uses_gpu(self) -> bool:
        """Whether it asks for a GPU, or runs what computes on one."""
        return self.asks_for_gpu or any(one.image and one.image.is_for_gpus for one in self.all_containers)

    @worked_out_once
    def device_count(self) -> int:
        """The GPUs, instances and shares that one pod holds."""
        return sum(self.asked_devices.values())

    @worked_out_once
    def is_gpu_infrastructure(self) -> bool:
        """Whether it is a part of the GPU stack, such as a plugin, which reaches devices by design."""
        paths = [volume.host_path or "" for volume in self.volumes]
        return any(path.startswith(PLUGIN_FOLDERS) for path in paths) or any(
            one.image is not None and one.image.is_gpu_infrastructure for one in self.all_containers
        )
