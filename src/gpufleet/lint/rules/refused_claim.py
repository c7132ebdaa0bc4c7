"""GPU057: a claim or a class of devices (DRA) with a selector or a constraint that the API server refuses."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import printable

GROUP = "resource.k8s.io"
CLAIM = "ResourceClaim"
TEMPLATE = "ResourceClaimTemplate"
CLASS = "DeviceClass"
CHARACTERS_MAX = 10 * 1024
"""Of a selector, as the API has it (CELSelectorExpressionMaxLength)."""

ADVICE = "correct it: it may use device.driver, device.attributes[DRIVER].NAME, device.capacity[DRIVER].NAME"
"""What a selector is made of."""


def _concerns(manifest: Manifest) -> bool:
    return manifest.group == GROUP and manifest.kind in {CLAIM, TEMPLATE, CLASS}


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """The selectors of an object, and the constraints of a claim."""
    spec = manifest.root.at("spec")
    if manifest.kind == CLASS:
        yield from _selectors(spec)
        return
    devices = spec.at("spec", "devices") if manifest.kind == TEMPLATE else spec.at("devices")
    requests = devices.at("requests").items()
    for request in requests:
        # Before v1 a request has its selectors itself.
        for choice in (request, request.at("exactly"), *request.at("firstAvailable").items()):
            yield from _selectors(choice)
    names = set(_names(requests))
    for constraint in devices.at("constraints").items():
        yield from _constraint(constraint, names)


def _names(requests: list[Field]) -> Iterator[str]:
    """The names by which constraints mean requests and their choices."""
    for request in requests:
        name = request.at("name").text or ""
        yield name
        yield from (f"{name}/{one.at('name').text}" for one in request.at("firstAvailable").items())


def _selectors(choice: Field) -> Iterator[RuleFinding]:
    for one in choice.at("selectors").items():
        field = one.at("cel", "expression")
        problem = _problem(field.text) if field.text is not None else ""
        if problem:
            yield RuleFinding(field, f"Kubernetes refuses the selector: {problem}", ADVICE)


def _problem(text: str) -> str:
    if len(text) > CHARACTERS_MAX:
        return f"it has {len(text)} characters, and {CHARACTERS_MAX} are allowed"
    # The compiler of selectors takes a tenth of a second to load, and most manifests have none.
    from gpufleet.device_selectors.cel_errors import ExpressionError
    from gpufleet.device_selectors.selector import Features, selector

    problem = ""
    # What a gate of a cluster may let pass is not refused for sure.
    for has_lists in (False, True):
        try:
            selector(text, Features(has_list_attributes=has_lists))
        except ExpressionError as error:
            problem = problem or printable(str(error))
        else:
            return ""
    return problem


def _constraint(constraint: Field, names: set[str]) -> Iterator[RuleFinding]:
    for kind in ("matchAttribute", "distinctAttribute"):
        field = constraint.at(kind)
        if field.text and "/" not in field.text:
            says = f"{kind} {printable(field.text)} has no domain, so Kubernetes refuses the claim"
            yield RuleFinding(field, says, "write DOMAIN/NAME, such as resource.kubernetes.io/pcieRoot")
    for one in constraint.at("requests").items():
        if one.text is not None and one.text not in names:
            meant = nearest(one.text, sorted(names))
            says = f"the constraint names the request {printable(one.text)}, which the claim does not have"
            yield RuleFinding(one, says, f"write {meant}" if meant else "name a request of this claim")


RULE = Rule("GPU057", "Claim that Kubernetes refuses", Severity.ERROR, check, concerns=_concerns)
