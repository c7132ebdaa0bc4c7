"""GPU021: processes of several GPUs, or workers that load data, meet in 64 MiB of /dev/shm."""

import re
from collections.abc import Iterator

from gpufleet.lint.edits.edits import Append, Edit, Fix
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.scale_targets import AUTOSCALERS, target
from gpufleet.lint.objects.shared_memory import fitting_size
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged
from gpufleet.lint.source.nodes import Data

NEVER_RUN = frozenset({"PodTemplate"})
"""Kinds with a template from which no controller makes pods."""
_STAYS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job"})
"""Kinds that stay without pods where they are written so and nothing scales them."""
PLACE = "/dev/shm"  # noqa: S108  where every runtime has it, in the container
VOLUME = "dshm"
_COMPLETED = "what KServe adds to its pods: the preset or the runtime that they are merged with"
_LOADS_DATA = re.compile(r"--?(num[-_]workers|dataloader[-_]num[-_]workers)[= ]+[1-9]|DataLoader")
_HAS_WORKERS = re.compile(r"--?workers[= ]+[1-9]")
_TRAINS = re.compile(r"train|torch|yolo|imagenet|epochs|python", re.IGNORECASE)
"""With these, workers load data: a server or a simulation has other ones."""
_WAITS = re.compile(r"\b(sleep|nvidia-smi|rocm-smi|clinfo|tail -f)\b")
_SHOWS_CARDS = re.compile(r"\b(nvidia-smi|rocm-smi|clinfo)\b")
_INLINE_PYTHON = re.compile(r"(\S*/)?python[0-9.]*")
_IMPORTS = re.compile(
    r"^\s*(?:import|from)\s+([\w., ]+?)(?:[ \t]+import\b.*)?$|;\s*import\s+([\w., ]+)", re.MULTILINE
)
_ONE_PROCESS = frozenset({"json", "math", "numpy", "os", "sys", "time", "torch"})
"""Modules with which a program that says no more stays one process."""
_MEETS = re.compile(r"distributed|DataLoader|DataParallel|multiprocessing|fork|nccl", re.IGNORECASE)
_IS_A_RANK = re.compile(r"init_process_group\(")
_STARTS_RANKS = re.compile(r"DataLoader|DataParallel\b|multiprocessing|fork|spawn")
"""What starts further processes in a program that is one rank of several, and else one process."""
_DRIVES_ALL_ALONE = re.compile(r"ollama|llama[-_.]?cpp")
"""Images of servers that divide models among cards in one process."""
_COMPUTES = re.compile(r"python|torch|mpi|deepspeed|accelerate|nccl|\.(py|sh)\b")


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each container that needs shared memory and has nothing mounted at /dev/shm."""
    if manifest.kind in NEVER_RUN:
        return
    for template in manifest.templates:
        if template.is_gpu_infrastructure or template.spec.at("hostIPC").is_true:
            continue
        if template.replicas == 0 and not _may_grow(manifest, context):
            continue
        found = [one for one in template.containers if _lacks(one) and not _is_given(template, one)]
        for container in found:
            if not template.shows_all_of(container):
                yield Unjudged(container.field, _COMPLETED)
        lacking = [one for one in found if template.shows_all_of(one)]
        # The volume is added once; where several containers lack it, all get it by one fix.
        fix = _fix(template, lacking) if lacking else None
        for container in lacking:
            why = f"{container.device_count} GPUs" if container.device_count > 1 else "workers that load data"
            says = f"container {container.name} has {why} and the default /dev/shm of 64 MiB"
            advice = "mount an emptyDir with medium Memory and a sizeLimit at /dev/shm"
            yield RuleFinding(container.field, says, advice, fix if container is lacking[0] else None)


def _is_on(container: Container, name: str) -> bool:
    variable = container.variable(name)
    return variable is not None and variable.value not in {None, "", "0"}


def _may_grow(manifest: Manifest, context: Context) -> bool:
    """Whether templates without a pod may get some, by their controller or an autoscaler of this run."""
    if manifest.kind not in _STAYS:
        return True
    scalers = context.of_kind(*sorted(AUTOSCALERS), beside=manifest)
    return any(target(one, context) is manifest for one in scalers)


def _is_given(template: PodTemplate, container: Container) -> bool:
    return template.has_memory and container.field.key == 0


def _lacks(container: Container) -> bool:
    if any(mount.path in {PLACE, "/dev"} for mount in container.mounts):
        return False
    words = " ".join(container.words)
    if container.image and container.image.only_holds_or_tests:
        return False
    if _only_shows_cards(words) or _is_one_process(container):
        return False
    if _is_on(container, "NCCL_SHM_DISABLE") and not _loads_data(container):
        return False
    if container.image and _DRIVES_ALL_ALONE.search(container.image.text):
        return False
    if container.image and container.image.is_plain_system and _WAITS.search(words):
        # A shell that waits to be looked into computes nothing of its own.
        return _COMPUTES.search(words) is not None and container.device_count > 1
    return container.device_count > 1 or (container.has_gpu and _loads_data(container))


def _loads_data(container: Container) -> bool:
    words = " ".join(container.words)
    told = f"{words} {container.image.text if container.image else ''}"
    return bool(_LOADS_DATA.search(words) or (_HAS_WORKERS.search(words) and _TRAINS.search(told)))


def _only_shows_cards(words: str) -> bool:
    """Whether it lists the node's cards and computes nothing, whatever its image holds."""
    return bool(_SHOWS_CARDS.search(words)) and not _COMPUTES.search(words)


def _is_one_process(container: Container) -> bool:
    """Whether its whole program is written there, and starts no second process and no NCCL."""
    words = container.words
    if len(words) != 3 or not _INLINE_PYTHON.fullmatch(words[0]) or words[1] != "-c":
        return False
    found = [one for pair in _IMPORTS.findall(words[2]) for one in pair if one]
    modules = {name.split(".")[0].strip() for line in found for name in line.split(",")}
    if not modules or not modules <= _ONE_PROCESS:
        return False
    meets = _STARTS_RANKS if _IS_A_RANK.search(words[2]) else _MEETS
    return not meets.search(words[2])


def _fix(template: PodTemplate, lacking: list[Container]) -> Fix:
    known = {volume.name for volume in template.volumes}
    name = VOLUME if VOLUME not in known else f"gpu-{VOLUME}"
    edits: list[Edit] = []
    if name not in known:
        size = fitting_size(lacking)
        volume: Data = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        edits.append(Append(template.spec.at("volumes"), volume))
    mount: dict[str, Data] = {"name": name, "mountPath": PLACE}
    edits += [Append(container.field.at("volumeMounts"), dict(mount)) for container in lacking]
    return Fix(f"mount memory at {PLACE}", tuple(edits))


RULE = Rule("GPU021", "Default /dev/shm for several GPUs", Severity.WARNING, check, fixes=True)
