"""GPU004: GPUs are taken by an environment variable, past the scheduler.

What it finds is what gpufleet's policies refuse on a cluster (``kube/manifests/device-access.yaml``). It is
an error where the pod names a runtime of NVIDIA's, which reads the variable; whether that of a node does, no
manifest tells.
"""

from collections.abc import Iterator

from gpufleet.kube.keys import HIDING_VALUES, VISIBLE_DEVICES
from gpufleet.kube.meanings.shares import says_share
from gpufleet.lint.edits.edits import Fix, removal
from gpufleet.lint.objects.administration import administers_cards
from gpufleet.lint.objects.containers import Container, Variable
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_workload_pods
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.template_paths import PER_NODE
from gpufleet.lint.rule import Rule, RuleFinding, Severity

BESIDE_A_GPU_TOO = frozenset(
    {
        "AMD_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
    }
)
"""Variables that show devices which were not given, also to a container that has some."""

GIVEN = ("nvidia.com/", "gpufleet.io/")
"""Resources for which a device plugin may set the variable itself.

Whether the pod's own value opens more beside them depends on how devices are injected: GPU005 warns of it.
"""


_RUNTIME = "nvidia"
"""In the names of RuntimeClasses whose handler reads the variable."""
_FOR_ADMINISTRATORS = "run what sets up cards as a DaemonSet of the GPU stack, and not beside workloads"


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each variable by which a container names devices that it is not given."""
    for template in manifest.templates:
        if template.is_gpu_infrastructure:
            continue
        for container in template.all_containers:
            for variable in container.env:
                if _names_devices(container, variable):
                    yield _remark(manifest, template, container, variable)


def _names_devices(container: Container, variable: Variable) -> bool:
    if variable.name == VISIBLE_DEVICES:
        counts = not any(name.startswith(GIVEN) for name in container.gpu_names)
    else:
        counts = variable.name in BESIDE_A_GPU_TOO
    return counts and variable.value not in HIDING_VALUES


def _remark(
    manifest: Manifest, template: PodTemplate, container: Container, variable: Variable
) -> RuleFinding:
    value = "a value from elsewhere" if variable.value is None else variable.value
    # Of claims and shares it is given some: whether the variable opens more depends on who gives them.
    asks = container.has_claims or says_share(template.labels, template.annotations)
    if variable.name == VISIBLE_DEVICES and not asks:
        says = f"container {container.name} takes GPUs by {VISIBLE_DEVICES}={value} and asks for none"
    else:
        says = f"container {container.name} takes devices by {variable.name}={value}"
    if administers_cards(container):
        return RuleFinding(variable.field, says, _FOR_ADMINISTRATORS, severity=Severity.WARNING)
    advice = "remove the variable and ask for GPUs in limits, so that they are counted and not given twice"
    does = f"remove {variable.name} from container {container.name}"
    is_read = variable.name == VISIBLE_DEVICES and _RUNTIME in (
        template.spec.text_at("runtimeClassName") or ""
    )
    # What runs on every node may be a part of a stack that hands out devices itself.
    is_sure = is_read and not asks and variable.value is not None and manifest.kind != PER_NODE
    severity = None if is_sure else Severity.WARNING
    return RuleFinding(variable.field, says, advice, Fix(does, (removal(variable.field),)), severity)


RULE = Rule(
    "GPU004",
    "GPUs taken by NVIDIA_VISIBLE_DEVICES",
    Severity.ERROR,
    check,
    concerns=has_workload_pods,
    fixes=True,
)
