"""GPU051: a quota that does not count GPUs, or a default that gives one to every pod."""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_card_name, is_gpu, meant_gpu
from gpufleet.lint.edits.edits import Edit, Fix, Insert, Remove, Rename, Replace, removal
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field

DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
"""The end of a key that counts the devices that claims ask for of a class."""

NONE = "0"
"""A default of no GPU, which keeps a maximum from being the default."""

_LIMITS, _REQUESTS, _COUNT = "limits.", "requests.", "count/"
# A quota on these alone is meant for the namespace, and forgets its GPUs.
_HOST = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods"})


def _is_guard(manifest: Manifest) -> bool:
    return manifest.group == "" and manifest.kind in {"ResourceQuota", "LimitRange"}


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding]:
    """Each bound on GPUs that is not counted, each default, and a quota without GPUs beside GPU pods."""
    if manifest.kind == "LimitRange":
        yield from _defaults(manifest)
        return
    hard = manifest.root.at("spec", "hard")
    for name, field in hard.entries():
        resource = _bounded(name)
        # A kind of card as a resource is counted, where a device plugin offers it.
        right = _REQUESTS + ((not is_card_name(resource) and meant_gpu(resource)) or resource)
        is_about_devices = is_gpu(right.removeprefix(_REQUESTS))
        if resource.endswith(DEVICES_OF_CLASS):
            # With a prefix Kubernetes takes the prefix for the beginning of the class's name.
            right, is_about_devices = resource, True
        if is_about_devices and name != right:
            yield _uncounted(hard, name, field, right)
    names = {name for name, _ in hard.entries()}
    counts = any(is_gpu(_bounded(name)) for name in names)
    if names & _HOST and not counts:
        users = [
            one for kind in ("Deployment", "Job", "Pod") for one in context.of_kind(kind, beside=manifest)
        ]
        if any(map(has_gpu_pods, users)):
            says = (
                "bounds what pods take of the host and nothing of GPUs, which pods of this namespace ask for"
            )
            yield RuleFinding(hard, says, "bound requests.nvidia.com/gpu")


def _uncounted(hard: Field, name: str, field: Field, right: str) -> RuleFinding:
    """A bound that counts nothing: an error, unless another entry bounds as much under the right name."""
    counted = hard.at(right)
    says = f"bounds {name}, which Kubernetes does not count"
    if not counted.exists:
        # What looks like a bound and bounds nothing is worse than none.
        fix = Fix(f"bound {right}", (Rename(field, right),))
        return RuleFinding(field, says, f"bound {right}", fix, Severity.ERROR)
    told, held = amount(field.text), amount(counted.text)
    if told is None or held is None or told < held:
        # Which of the two is meant is not written.
        return RuleFinding(field, says, f"bound {right}: {field.text}, or remove it", severity=Severity.ERROR)
    fix = Fix(f"leave the bound to {right}", (Remove(field),))
    advice = f"remove it: {right} is counted, and bounds as much"
    return RuleFinding(field, says, advice, fix, Severity.WARNING)


def _bounded(name: str) -> str:
    """The resource that a key of a quota is about."""
    return name.removeprefix(_COUNT).removeprefix(_LIMITS).removeprefix(_REQUESTS)


def _defaults(manifest: Manifest) -> Iterator[RuleFinding]:
    for limit in manifest.root.at("spec", "limits").items():
        maximum, default = limit.at("max"), limit.at("default")
        for name, bound in maximum.entries():
            if limit.at("type").text == "Container" and _gives(name, bound) and not default.at(name).exists:
                why = "a max without a default is the default"
                yield _gift(bound, name, Insert(default, name, NONE), f", as {why}")
        for part in ("default", "defaultRequest"):
            for name, field in limit.at(part).entries():
                if _gives(name, field):
                    bounded = maximum.at(name).exists
                    yield _gift(field, name, Replace(field, NONE) if bounded else removal(field))


def _gives(name: str, field: Field) -> bool:
    return is_gpu(name) and field.text != NONE


def _gift(field: Field, name: str, edit: Edit, why: str = "") -> RuleFinding:
    says = f"gives {field.text} of {name} to every container that asks for none{why}"
    if isinstance(edit, Remove):
        mend = "remove it; a pod that needs a GPU asks for it"
        return RuleFinding(field, says, mend, Fix(f"remove the default of {name}", (edit,)))
    mend = f'let the default be {name}: "{NONE}"; a pod that needs a GPU asks for it'
    return RuleFinding(field, says, mend, Fix(f"give {name} the default {NONE}", (edit,)))


RULE = Rule(
    "GPU051", "Quota that does not count GPUs", Severity.WARNING, check, concerns=_is_guard, fixes=True
)
