"""GPU020: labels, annotations and resources under names that nothing sets or reads any more."""

from collections.abc import Iterator

from gpufleet.kube.keys import DO_NOT_DISRUPT
from gpufleet.kube.meanings import node_labels
from gpufleet.kube.meanings.gpu_resources import OLD_NVIDIA_GPU
from gpufleet.kube.meanings.node_pools import KARPENTER_NODE_POOL
from gpufleet.lint.edits.edits import Edit, Fix, Remove, Rename, Replace
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.model.resource_names import NVIDIA_GPU

NODE_LABELS = {
    "beta.kubernetes.io/os": node_labels.OS,
    "beta.kubernetes.io/arch": node_labels.ARCH,
    "beta.kubernetes.io/instance-type": node_labels.INSTANCE_TYPE,
    node_labels.OLD_ZONE: node_labels.ZONE,
    node_labels.OLD_REGION: node_labels.REGION,
    "alpha.kubernetes.io/nvidia-gpu-name": node_labels.NVIDIA_PRODUCT,
    "karpenter.sh/provisioner-name": KARPENTER_NODE_POOL,
}
ANNOTATIONS = {"karpenter.sh/do-not-evict": DO_NOT_DISRUPT}
RESOURCES = {OLD_NVIDIA_GPU: NVIDIA_GPU}
OF_ONE_CLOUD = "accelerator"
_OTHER_VALUES = frozenset({"alpha.kubernetes.io/nvidia-gpu-name"})
"""Keys with values that are spelt differently under the new name, so that renaming does not mend them."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each old name in selection, annotations and resources of pods that use GPUs."""
    for template in manifest.templates:
        if not template.uses_gpu or template.is_gpu_infrastructure:
            continue
        yield from _in_mapping(template.spec.at("nodeSelector"), NODE_LABELS)
        yield from _in_mapping(template.metadata.at("annotations"), ANNOTATIONS)
        yield from _in_affinity(template)
        for container in template.all_containers:
            for part in ("limits", "requests"):
                yield from _in_mapping(container.field.at("resources", part), RESOURCES)
        if (field := template.spec.at("nodeSelector", OF_ONE_CLOUD)).text == "nvidia":
            advice = (
                f"AKS sets kubernetes.azure.com/accelerator; {node_labels.GPU_PRESENT} is set on every cloud"
            )
            yield RuleFinding(field, f"selects nodes by the old label {OF_ONE_CLOUD}", advice)


def _in_mapping(mapping: Field, names: dict[str, str]) -> Iterator[RuleFinding]:
    for old, new in names.items():
        field = mapping.at(old)
        if field.key_node is None:
            continue
        edit: Edit = Remove(field) if mapping.at(new).exists else Rename(field, new)
        fix = None if old in _OTHER_VALUES else Fix(f"write {new} instead of {old}", (edit,))
        yield RuleFinding(field, f"{old} is not in use any more", f"write {new}", fix)


def _in_affinity(template: PodTemplate) -> Iterator[RuleFinding]:
    affinity = template.spec.at("affinity", "nodeAffinity")
    terms = affinity.at("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").items()
    preferred = affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items()
    for term in (*terms, *(one.at("preference") for one in preferred)):
        for expression in term.at("matchExpressions").items():
            field = expression.at("key")
            old = field.text or ""
            if new := NODE_LABELS.get(old):
                does = Fix(f"write {new} instead of {old}", (Replace(field, new),))
                fix = None if old in _OTHER_VALUES else does
                yield RuleFinding(field, f"{old} is not in use any more", f"write {new}", fix)


RULE = Rule("GPU020", "Names that are not in use any more", Severity.WARNING, check, fixes=True)
