"""GPU025: the number of processes or of parts of a model is not the number of GPUs."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.server_parts import Parts, counts_all, parts_of
from gpufleet.lint.objects.wide_models import SPANS_PODS
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# How launchers spell the number of processes of one pod.
_PER_NODE = re.compile(r"--?(?:nproc[-_]per[-_]node|num_processes_per_node)[= ]+(\S+)")
_DEEPSPEED = re.compile(r"(?:^|[\s/])deepspeed\s(?:.*\s)?--num[-_]gpus[= ]+(\S+)")
_ACCELERATE = re.compile(r"(?:^|[\s/])accelerate launch\s(?:.*\s)?--num[-_]processes[= ]+(\S+)")
_MACHINES = re.compile(r"--num[-_]machines[= ]+(\S+)")
_ELSEWHERE = re.compile(r"--config[-_]file\b|--cpu\b|--main[-_]process[-_]ip\b|--machine[-_]rank\b")
"""Options of accelerate with which its machines, or whether they compute on GPUs, may stand elsewhere."""

_ELSEWHERE_TOO = re.compile(r"RAY_ADDRESS|NVIDIA_VISIBLE_DEVICES|\w*NNODES|VLLM_\w*(RAY|PLUGIN)\w*")
"""Variables by which a server may reach GPUs that its container does not ask for."""
_SCRIPT = re.compile(r"\.sh\b|\bsource\b")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container with arguments that count otherwise than its limits."""
    # Parts of a model that spans pods are counted over the group; the arguments then speak of all of it.
    spans_pods = manifest.kind in SPANS_PODS
    for template in manifest.templates:
        for container in template.containers:
            count = container.device_count
            if not count:
                continue
            field = container.field.at("args" if container.field.at("args").exists else "command")
            processes = _processes(container)
            if processes is None:
                processes = _too_many(container, count)
            if processes is not None and processes != count:
                started = "1 process" if processes == 1 else f"{processes} processes"
                says = f"container {container.name} starts {started} and has {_gpus(count)}"
                advice = "start one process for each GPU (torchrun counts them with gpu)"
                # On which devices its processes compute, a program out of sight says.
                yield RuleFinding(field, says, advice, severity=Severity.WARNING)
            parts = None if spans_pods else parts_of(container)
            if parts is not None and parts.gpus != count * parts.nodes:
                yield RuleFinding(
                    field,
                    f"container {container.name} {_divided(parts, count)}",
                    "make the product of the parallel sizes the number of GPUs in limits",
                    severity=None
                    if _refuses(container, parts.gpus, count * parts.nodes)
                    else Severity.WARNING,
                )


def _refuses(container: Container, wanted: int, given: int) -> bool:
    """Whether the server surely finds fewer GPUs than it is told to use; with more, the rest is idle."""
    line = " ".join(container.words)
    sees_others = (
        container.has_claims
        or container.field.at("securityContext", "privileged").is_true
        or any(_ELSEWHERE_TOO.fullmatch(one.name) for one in container.env)
        or _SCRIPT.search(line)
    )
    return wanted > given and not sees_others


def _divided(parts: Parts, count: int) -> str:
    if parts.nodes == 1:
        return f"divides its model among {_gpus(parts.gpus)} and has {count}"
    return f"divides its model among {_gpus(parts.gpus)} of {parts.nodes} nodes and has {count} on each"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _processes(container: Container) -> int | None:
    """The processes that a launcher starts; None where it is not said, or of several launchers."""
    said = _PER_NODE.findall(" ".join(container.words))
    if len(said) != 1 or not counts_all(container):
        return None
    return int(said[0]) if re.fullmatch(r"[0-9]{1,6}", said[0]) else None


def _too_many(container: Container, count: int) -> int | None:
    """The processes that DeepSpeed or accelerate starts where they are more than the GPUs.

    Fewer are left alone: with both, the other GPUs are as a rule for a server beside the training.
    """
    line = " ".join(container.words)
    deepspeed, accelerate = _DEEPSPEED.findall(line), _ACCELERATE.findall(line)
    if len(deepspeed) + len(accelerate) != 1 or not counts_all(container):
        return None
    machines = "1"
    if accelerate:
        said = _MACHINES.findall(line)
        if len(said) > 1 or (_ELSEWHERE.search(line) and not said):
            return None
        machines = said[0] if said else "1"
    numbers = (*deepspeed, *accelerate, machines)
    if not all(re.fullmatch(r"[1-9][0-9]{0,5}", one) for one in numbers):
        return None
    processes = -(-int(numbers[0]) // int(machines))
    return processes if processes > count else None


RULE = Rule("GPU025", "As many processes as GPUs", Severity.ERROR, check)
