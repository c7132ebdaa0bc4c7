"""GPU015: a server asks for a number format that a GPU which it may get does not compute."""

from collections.abc import Iterator

from gpufleet.kube.meanings.node_labels import NVIDIA_PRODUCT
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.node_facts import node_facts
from gpufleet.lint.objects.vllm_command import Served, served
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged

# NVIDIA's compute capability from which on the format is computed in hardware.
_BFLOAT16, _FP8 = (8, 0), (8, 9)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each vLLM server with such a format, on the first node that is too old for it."""
    for template in manifest.templates:
        for container in template.containers:
            found = served(container) if container.has_gpu else None
            needed = _needed(found) if found is not None else None
            if needed is None:
                continue
            what, least = needed
            field = container.field.at("args" if container.field.at("args").exists else "command")
            if context.cluster is None or not context.cluster.knows("Node"):
                yield Unjudged(field, CLUSTER_NEEDED)
                continue
            nodes = context.cluster.candidates(template)
            told = {node.name: node_facts(node).capability for node in nodes}
            # The scheduler may choose any of the candidates, so one old node is enough.
            old = next((name for name, one in told.items() if one and _pair(one) < least), None)
            if old is not None:
                says = f"container {container.name} asks for {what} and may land on node {old} ({told[old]})"
                advice = f"select GPUs of compute capability {least[0]}.{least[1]} or more by affinity"
                yield RuleFinding(field, says, advice)
            elif not told or None in told.values():
                yield Unjudged(field, f"a known GPU in {NVIDIA_PRODUCT} on every node that may take the pod")


def _needed(found: Served) -> tuple[str, tuple[int, int]] | None:
    """The format that needs the newest GPU, and its least compute capability."""
    for option in ("quantization", "kv-cache-dtype"):
        if found.options.get(option, "").startswith("fp8"):
            return f"{option} fp8", _FP8
    return ("dtype bfloat16", _BFLOAT16) if found.options.get("dtype") == "bfloat16" else None


def _pair(capability: str) -> tuple[int, int]:
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)


RULE = Rule("GPU015", "Format that the GPU does not compute", Severity.WARNING, check, Scope.CLUSTER)
