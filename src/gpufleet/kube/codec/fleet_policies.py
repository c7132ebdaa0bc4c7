"""What a FleetPolicy means: a policy of the model.

One object does not show whether another policy speaks of the same nodes: ``operator.assignment`` looks at all
of them.
"""

from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.rollout_settings import read_mig_periods, read_rollout_settings
from gpufleet.kube.codec.selectors import label_selector
from gpufleet.kube.codec.written_words import check_length, read_word
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.kube.objects import node as node_wire
from gpufleet.model.fleet_policy import (
    Driver,
    DriverBuild,
    DriverSource,
    FleetPolicy,
    KernelModules,
    Runtime,
    RuntimeMode,
)
from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError
from gpufleet.model.taint import Taint

# The limits of the definition of FleetPolicy, checked again: an object may be older than the definition.
MAXIMUM_LABELS = 64
MAXIMUM_TAINTS = 16


def read_fleet_policy(found: wire.FleetPolicy) -> FleetPolicy:
    """What the object means. Raises ObjectError, naming the field, for what cannot be."""
    name, spec = found.metadata.name, found.spec
    with of_object("FleetPolicy", name):
        if not is_subdomain(name):
            raise ObjectError("not a policy's name", field="metadata.name", value=name, expected="a DNS name")
        with inside("spec"):
            return FleetPolicy(
                name=FleetPolicyName(name),
                selector=_selector(spec),
                driver=_driver(spec.driver),
                runtime=_runtime(spec.runtime),
                sharing_config=spec.sharing_config,
                mig_layout=spec.mig_layout,
                mig_periods=read_mig_periods(spec.mig_periods),
                rollout=None if spec.rollout is None else read_rollout_settings(spec.rollout),
                labels=_labels(spec.labels),
                taints=_taints(spec.taints),
            )


def _selector(spec: wire.FleetPolicySpec) -> LabelSelector:
    selector = label_selector(spec.node_selector, "nodeSelector")
    if selector is None or not selector.requirements:
        # It would take every node of the cluster, control plane and all.
        expected = 'at least one label, such as nvidia.com/gpu.present: "true"'
        raise InputError("selects every node", field="nodeSelector", expected=expected)
    return selector


def _driver(written: wire.DriverSpec | None) -> Driver | None:
    if written is None:
        return None
    with inside("driver"):
        return Driver(
            source=read_word(written.source, DriverSource, "source"),
            image=written.image,
            version=written.version,
            build=read_word(written.build, DriverBuild, "build"),
            kernel_modules=read_word(written.kernel_modules, KernelModules, "kernelModules"),
        )


def _runtime(written: wire.RuntimeSpec | None) -> Runtime | None:
    if written is None:
        return None
    with inside("runtime"):
        return Runtime(read_word(written.mode, RuntimeMode, "mode"), written.image)


def _labels(written: dict[str, str]) -> tuple[tuple[str, str], ...]:
    check_length(len(written), MAXIMUM_LABELS, "labels")
    return tuple(sorted(written.items()))


def _taints(written: tuple[node_wire.Taint, ...]) -> tuple[Taint, ...]:
    check_length(len(written), MAXIMUM_TAINTS, "taints")
    found: dict[tuple[str, str], Taint] = {}
    for position, one in enumerate(written):
        with inside(f"taints[{position}]"):
            taint = Taint(one.key, one.value, one.effect)
            if (taint.key, taint.effect) in found:
                expected = "each key once with one effect"
                raise InputError("twice", field="key", value=taint.key, expected=expected)
            found[taint.key, taint.effect] = taint
    return tuple(found.values())
