"""All rules over one case: what blocks first, then what warns, then what is not known."""

from collections.abc import Callable, Iterator

from gpufleet.model.fleet_policy import DriverSource
from gpufleet.preflight import kernel, modules, node_state, other_operators, runtime
from gpufleet.preflight.facts import Case
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

Rule = Callable[[Case], Iterator[PreflightFinding]]
RULES: tuple[Rule, ...] = (
    modules.judge,
    kernel.judge,
    runtime.judge,
    other_operators.judge,
    node_state.judge,
)
TOOLKIT_RULES: tuple[Rule, ...] = (runtime.judge, node_state.judge)
"""A toolkit touches no module of the kernel, and needs no image that fits it."""

ORDER = {severity: height for height, severity in enumerate(FindingSeverity)}


def judge(case: Case) -> tuple[PreflightFinding, ...]:
    """The findings of all rules, the gravest first."""
    return _judged(case, RULES)


def judge_toolkit(case: Case) -> tuple[PreflightFinding, ...]:
    """The findings about a toolkit that comes while the driver stays, the gravest first."""
    return _judged(case, TOOLKIT_RULES)


def _judged(case: Case, rules: tuple[Rule, ...]) -> tuple[PreflightFinding, ...]:
    found = [finding for rule in rules for finding in rule(case)]
    # By rule within one severity, so that the same case gives the same report.
    return tuple(sorted((*found, *unknown(case)), key=lambda one: (ORDER[one.severity], one.rule)))


def unknown(case: Case) -> Iterator[PreflightFinding]:
    """One finding that names everything that rules would need and nothing tells."""
    host = case.host
    needed: dict[str, object] = {
        "the kernel": host.kernel,
        "loaded modules": host.modules,
        "the runtime's configuration": host.runtime,
        "which pods hold GPUs": case.node.gpu_pods,
    }
    if case.wanted.source is DriverSource.IMAGE:
        needed |= {
            "the architecture": host.architecture,
            "the system": host.os,
            "secure boot": host.secure_boot,
            "free space": host.free_mib,
            "a driver of the host": host.driver_package,
            "what the image is for": case.image.architectures,
        }
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        yield PreflightFinding(
            "facts-unknown",
            FindingSeverity.UNKNOWN,
            f"not known: {', '.join(missing)}",
            "what is not known is not taken to be well: see what reports it, or look on the node",
        )
