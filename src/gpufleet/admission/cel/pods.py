"""The pods of an object as variables of a policy: the same view of them that ``gpufleet.lint.objects`` has.

``variables.pods`` is a list with a map for each pod template: ``template`` as it stands, ``containers``,
whether the pod ``asks`` for a GPU, and whether it is ``infrastructure`` of GPUs, which reaches devices by
design. A container has its ``source``, ``limits`` and ``requests``, the ``gpus`` that it asks for, and
whether its image ``isForGpus``. Where templates stand comes from lint's own table. ``cel.rules`` judges these
variables.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.admission.cel.words import amount, any_of, found_in, is_gpu, literal, literals, uses_gpu
from gpufleet.kube import keys
from gpufleet.lint.objects.images import FOR_GPUS, FRAMEWORK, GPU_TAG, INFRASTRUCTURE
from gpufleet.lint.objects.pods import PLUGIN_FOLDERS
from gpufleet.lint.objects.template_paths import ANY_FIELD, ANY_ITEM, PLACES, RUNTIMES, TemplatePath


@dataclass(frozen=True)
class Variable:
    """A variable of a policy: others may use it as ``variables.NAME``."""

    name: str
    expression: str


GroupKind = tuple[str, str]


def _is_judged(place: TemplatePath) -> bool:
    """Whether all of the pods shows at this place: elsewhere a controller completes them, or adds memory."""
    return not (place.bare or place.is_completed or place.has_memory or place.model_servers)


NOT_CREATED = frozenset({("", "PodTemplate"), ("extensions", "Deployment")})
"""Kinds that make no pods, or that no server of today has."""


def judged_kinds() -> dict[GroupKind, tuple[TemplatePath, ...]]:
    """The kinds that policies judge, with the places of their pods."""
    return {
        kind: places
        for kind, places in PLACES.items()
        if kind not in NOT_CREATED and kind[1] not in RUNTIMES and all(map(_is_judged, places))
    }


def kind_variables() -> tuple[Variable, ...]:
    """Which kind of object it is, and its pod templates."""
    group = "(object.apiVersion.contains('/') ? object.apiVersion.split('/')[0] : '')"
    return (Variable("kind", f"{group} + '/' + object.kind"), Variable("templates", _templates()))


def variables() -> tuple[Variable, ...]:
    """The variables, each after those that it uses."""
    return (
        *kind_variables(),
        Variable("containers", _CONTAINERS),
        Variable("holders", _holders()),
        Variable("pods", _pods()),
        Variable("hasGpuPods", f"variables.pods.exists(p, {uses_gpu()} && !p.infrastructure)"),
    )


def bound(body: str) -> str:
    """An expression of these variables as a condition, which can read none: each is evaluated once."""
    for one in reversed(variables()):
        body = f"[{one.expression}].exists({one.name}, {body})"
    return body.replace("variables.", "")


def _templates() -> str:
    by_places: dict[tuple[TemplatePath, ...], list[str]] = {}
    for (group, kind), places in judged_kinds().items():
        by_places.setdefault(places, []).append(f"{group}/{kind}")
    found = "[]"
    # Pods, which most requests are about, come first.
    for places, kinds in reversed(by_places.items()):
        lists = " + ".join(_at(place.template) for place in places)
        found = f"variables.kind in {literals(kinds)} ? {lists} :\n{found}"
    return found


def _at(path: str) -> str:
    """The list of what stands at a path of lint's table."""
    found = "[dyn(object)]"
    for run in _runs(path.split(".") if path else []):
        match run:
            case [step] if step == ANY_ITEM:
                found = f"{found}.map(x, dyn(x)).flatten()"
            case [step] if step == ANY_FIELD:
                found = f"{found}.map(x, x.map(name, x[name])).flatten()"
            case names:
                optional = "".join(f".?{name}" for name in names)
                found = f"{found}.filter(x, x{optional}.hasValue()).map(x, x.{'.'.join(names)})"
    return found


def _runs(steps: list[str]) -> Iterator[list[str]]:
    """The steps, those that are names of fields taken together."""
    names: list[str] = []
    for step in steps:
        if step in {ANY_ITEM, ANY_FIELD}:
            if names:
                yield names
            yield [step]
            names = []
        else:
            names.append(step)
    if names:
        yield names


_CONTAINERS = """\
variables.templates.map(t, (t.?spec.?containers.orValue([]) + t.?spec.?initContainers.orValue([])).map(c, {
  'source': dyn(c),
  'limits': dyn(c.?resources.?limits.orValue({})),
  'requests': dyn(c.?resources.?requests.orValue({})),
  'image': dyn(string(c.?image.orValue('')).split('@')[0]),
  'repository': dyn(string(c.?image.orValue('')).split('@')[0].find('^(.*/)?[^/:]*'))
}))"""


def asked_gpus(container: str = "c") -> str:
    """The names of GPU resources that a container with these limits and requests asks for."""
    limits, requests = f"{container}.limits", f"{container}.requests"
    text = amount(asked_amount(container))
    is_none = f"(isQuantity({text}) && quantity({text}).compareTo(quantity('0')) == 0)"
    names = f"({limits}.map(k, k) + {requests}.filter(k, !(k in {limits})))"
    return f"{names}.filter(k, {is_gpu('k')} && !{is_none})"


def asked_amount(container: str = "c", name: str = "k") -> str:
    """What a container asks for of a resource: its limit, else its request."""
    limits, requests = f"{container}.limits", f"{container}.requests"
    return f"({name} in {limits} ? {limits}[{name}] : {requests}[{name}])"


def _holders() -> str:
    tag = "(size(c.image) > size(c.repository) ? c.image.substring(size(c.repository) + 1) : '')"
    by_tag = f"{found_in('c.repository', FRAMEWORK)} && {found_in(tag, GPU_TAG)}"
    return f"""\
variables.containers.map(listed, listed.map(c, {{
  'source': c.source,
  'limits': c.limits,
  'requests': c.requests,
  'repository': c.repository,
  'gpus': dyn({asked_gpus()}),
  'isForGpus': dyn({found_in("c.repository", FOR_GPUS)} || ({by_tag}))
}}))"""


def _pods() -> str:
    template, holders = "variables.templates[i]", "variables.holders[i]"
    ours = literals((keys.GPU_FRACTION, keys.GPU_MEMORY))
    theirs = literals((keys.KAI_FRACTION, keys.KAI_MEMORY))
    labels, annotations = (
        f"{template}.?metadata.?{part}.orValue({{}})" for part in ("labels", "annotations")
    )
    asks = any_of(
        (
            f"{holders}.exists(c, size(c.gpus) > 0 || size(c.source.?resources.?claims.orValue([])) > 0)",
            f"size({template}.?spec.?resourceClaims.orValue([])) > 0",
            f"{ours}.exists(k, k in {labels} || k in {annotations})",
            f"{theirs}.exists(k, k in {annotations})",
        )
    )
    path = "string(v.?hostPath.?path.orValue(''))"
    folders = any_of(f"{path}.startsWith({literal(folder)})" for folder in PLUGIN_FOLDERS)
    infrastructure = any_of(
        (
            f"{template}.?spec.?volumes.orValue([]).exists(v, {folders})",
            f"{holders}.exists(c, {found_in('c.repository', INFRASTRUCTURE)})",
        )
    )
    return f"""\
lists.range(size(variables.templates)).map(i, {{
  'template': dyn({template}),
  'containers': dyn({holders}),
  'asks': dyn({asks}),
  'infrastructure': dyn({infrastructure})
}})"""
