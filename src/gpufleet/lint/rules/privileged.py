"""GPU006: a privileged container on a GPU node sees every device, whatever it was given."""

import re
from collections.abc import Iterator

from gpufleet.lint.edits.edits import Append, Edit, Fix, Insert, Replace, removal
from gpufleet.lint.objects.administration import administers_cards
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.fast_links import asks_for_link, mounts_link
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.server_parts import server_of
from gpufleet.lint.objects.template_paths import PER_NODE
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Mapping

LOCKS = "IPC_LOCK"
"""The capability by which a container may keep memory from being moved, as network cards of RDMA need."""

_SPEAKS_RDMA = re.compile(r"NCCL_IB_(?!DISABLE).*|UCX_NET_DEVICES|FI_PROVIDER|FI_EFA_.*|NVSHMEM_(HCA|IB)_.*")
"""Variables of programs that use RDMA."""

_NEEDS_SOME = re.compile(
    r"\b(mount|umount|modprobe|insmod|sysctl|ulimit|docker|dockerd|podman|nsenter|chroot|iptables|ip link"
    r"|fuse\w*|s3fs|gcsfuse|goofys|nsys|ncu|perf|gdb|strace|py-spy|losetup|swapoff|swapon|tc|ray)\b|/proc/|/sys/|/dev/"
    r"|\.sh\b"
)
"""Words of a command that needs more than the default, or whose script is out of sight."""
_LISTS = re.compile(r"(\S*/)?nvidia-smi( -L| -q)?")
_SERVES = re.compile(r"(^|/)ollama/ollama$")
_OTHER_PROGRAM = re.compile(r"\b(sh|bash|python3?)\b")
_KERNEL = re.compile(r"/(sys|proc|lib/modules)(/|$)")
_FOR_TRACERS = "run it in a pod of its own, or give it the capabilities it needs (BPF, PERFMON, SYS_PTRACE)"
_FOR_ADMINISTRATORS = "run what sets up cards as a DaemonSet of the GPU stack, and not beside workloads"
_SEES_CARDS = re.compile(r"\b(nvidia-smi|rocm-smi|amd-smi|dcgmi)\b")
"""Programs that read what cards there are: without privileges only those that their container is given."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each privileged container of a pod that uses GPUs."""
    for template in manifest.templates:
        if not template.uses_gpu or template.is_gpu_infrastructure:
            continue
        for container in template.all_containers:
            field = container.field.at("securityContext", "privileged")
            if field.is_true:
                says = f"container {container.name} of a GPU workload is privileged"
                if administers_cards(container):
                    yield RuleFinding(field, says, _FOR_ADMINISTRATORS, severity=Severity.WARNING)
                elif _traces_the_node(template, container):
                    yield RuleFinding(field, says, _FOR_TRACERS, severity=Severity.WARNING)
                else:
                    # What runs on every node may be a part of a stack that reaches devices itself.
                    is_known = manifest.kind != PER_NODE and _is_known(template, container)
                    severity = None if is_known and not _names_needs(container) else Severity.WARNING
                    advice, fix = _way_out(template, container, field, is_known)
                    yield RuleFinding(field, says, advice, fix, severity)


def _is_known(template: PodTemplate, container: Container) -> bool:
    """Whether all that it does is written, and needs no privilege of itself: a server, a list of cards."""
    words = " ".join(container.words)
    image = container.image.repository if container.image else ""
    # Who serves or lists in a shell may set up the node before: every word of it counts.
    if not container.has_gpu or _NEEDS_SOME.search(words) or container.field.at("lifecycle").exists:
        return False
    mounted = {one.volume for one in container.mounts}
    if any(one.host_path and one.name in mounted for one in template.volumes):
        return False
    if template.spec.at("hostNetwork").is_true:
        return False
    return server_of(container) is not None or bool(
        _LISTS.fullmatch(words) or (_SERVES.search(image) and not _OTHER_PROGRAM.search(words))
    )


def _names_needs(container: Container) -> bool:
    """Whether it says what it needs beside its program: capabilities, or RDMA."""
    return (
        container.field.at("securityContext", "capabilities").exists
        or asks_for_link(container)
        or _speaks_rdma(container)
    )


def _speaks_rdma(container: Container) -> bool:
    return any(_SPEAKS_RDMA.fullmatch(one.name) for one in container.env)


def _traces_the_node(template: PodTemplate, container: Container) -> bool:
    """Whether it is beside the one that computes, without a GPU, and traces or measures the node."""
    if container.has_gpu or not template.asks_for_gpu:
        return False
    mounted = {one.volume for one in container.mounts}
    return any(_KERNEL.match(one.host_path or "") for one in template.volumes if one.name in mounted)


def _way_out(
    template: PodTemplate, container: Container, field: Field, is_known: bool
) -> tuple[str, Fix | None]:
    """What to do, and the fix where nothing that it runs can need the privilege."""
    if not container.has_gpu and _SEES_CARDS.search(" ".join(container.words)):
        # Without its privileges it would see no card: how many it is to see, it does not say.
        return "drop it, and ask in its limits for the GPUs that it reads", None
    does = f"make container {container.name} unprivileged"
    if asks_for_link(container):
        advice = f"drop it; RDMA needs the capability {LOCKS} and the network card that it asks for"
        fix = Fix(f"{does} and let it have {LOCKS}", _with_lock(container)) if is_known else None
        return advice, fix
    if mounts_link(template) or _speaks_rdma(container):
        # Without privileges it may not open a card that no device plugin gave it.
        asked = "ask for the network card by its device plugin (rdma/hca, vpc.amazonaws.com/efa)"
        return f"drop it, add the capability {LOCKS}, and {asked}", None
    advice = f"drop it; what needs more than the default gets that one capability ({LOCKS} for RDMA)"
    is_sure = is_known and not _names_needs(container)
    return advice, Fix(does, (removal(field),)) if is_sure else None


def _with_lock(container: Container) -> tuple[Edit, ...]:
    context = container.field.at("securityContext")
    unprivileged = Replace(context.at("privileged"), False)
    added = context.at("capabilities", "add")
    if any(one.text in {LOCKS, f"CAP_{LOCKS}", "ALL"} for one in added.items()):
        return (unprivileged,)
    if isinstance(context.at("capabilities").node, Mapping):
        return (unprivileged, Append(added, LOCKS))
    return (unprivileged, Insert(context, "capabilities", {"add": [LOCKS]}))


RULE = Rule("GPU006", "Privileged GPU workload", Severity.ERROR, check, fixes=True)
