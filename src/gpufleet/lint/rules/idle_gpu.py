"""GPU049: a GPU that is held for hours and does nothing could have gone to other work."""

from collections.abc import Iterator, Sequence

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.measured_use import HOUR_S, IDLE_BELOW_MILLI, IdlePod, MeasuredUse
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged

LOADED_MIB = 1024
"""An idle GPU with this much memory in use still has a program loaded: CUDA's context alone takes less."""
_NEEDED = "what its pods used of their GPUs (--metrics USE, or --prometheus URL)"
_ADVICE_LOADED = "stop it when idle (culling, scale to zero), or let it share: gpufleet advise sharing"
_ADVICE_EMPTY = "no program is loaded: end it, or give the GPU back until there is work"


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """The object's workload, if the metrics have it."""
    field = manifest.root.at("spec")
    if context.use is None:
        yield Unjudged(field, _NEEDED)
        return
    found = context.use.of_object(manifest)
    if not found:
        yield Unjudged(field, "metrics in which its pods are: there is no workload of its name")
    elif len(found) > 1:
        names = ", ".join(sorted(name or "none" for name in found))
        yield Unjudged(field, f"its namespace: the metrics have workloads of its name in {names}")
    else:
        ((namespace, samples),) = found.items()
        pods = context.use.idle_pods(samples)
        if pods:
            place = f" in namespace {namespace}" if namespace and not manifest.namespace else ""
            loaded = max(pod.memory_mib for pod in pods) >= LOADED_MIB
            yield RuleFinding(
                field, _said(pods, context.use) + place, _ADVICE_LOADED if loaded else _ADVICE_EMPTY
            )


def _said(pods: Sequence[IdlePod], use: MeasuredUse) -> str:
    who = f"pod {pods[0].name}" if len(pods) == 1 else f"{len(pods)} pods"
    hours = sum(pod.gpu_s for pod in pods) / HOUR_S
    longest = max(pod.longest_s for pod in pods) / HOUR_S
    worth = use.worth(pods)
    money = "" if worth is None else f", {worth:,.2f} at the price given"
    memory = max(pod.memory_mib for pod in pods)
    return (
        f"{who} held GPUs below {IDLE_BELOW_MILLI // 10} % for {hours:.1f} GPU-hours{money}, "
        f"up to {longest:.1f} h at a stretch, with up to {memory} MiB in memory"
    )


RULE = Rule("GPU049", "GPU that is held and idle", Severity.WARNING, check, Scope.RUNTIME)
