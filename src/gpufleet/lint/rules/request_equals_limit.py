"""GPU001: a GPU is requested without the same limit, which the API server refuses."""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.edits.edits import Fix, Insert, Replace
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.rules.deprecated_keys import RESOURCES
from gpufleet.lint.source.fields import Field


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each request of a GPU that has no limit, or another one."""
    for template in manifest.templates:
        for container in template.all_containers:
            for name, request in container.requests.items():
                if is_gpu(name) and request.exists:
                    yield from _judged(container, name, request)


def _judged(container: Container, name: str, request: Field) -> Iterator[RuleFinding]:
    limit = container.limits.get(name)
    if limit is None or not limit.exists:
        value = request.integer if request.integer is not None else request.text
        edit = Insert(container.field.at("resources", "limits"), name, value)
        does = f"limit {name} of container {container.name} to what it requests"
        yield RuleFinding(
            request,
            f"container {container.name} requests {name}: {request.text} without a limit",
            f"put {name} into limits; the request may then be left out",
            # A limit under a former name would be removed again by the rule about such names.
            None if name in RESOURCES else Fix(does, (edit,)),
        )
    elif amount(limit.text) != amount(request.text):
        value = limit.integer if limit.integer is not None else limit.text
        does = f"request as much of {name} as container {container.name} is limited to"
        yield RuleFinding(
            request,
            f"container {container.name} requests {name}: {request.text} and limits it to {limit.text}",
            "a GPU cannot be overcommitted: write the limit alone, or both equal",
            Fix(does, (Replace(request, value),)),
        )


RULE = Rule("GPU001", "GPU request without an equal limit", Severity.ERROR, check, fixes=True)
