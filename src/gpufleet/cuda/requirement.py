"""Whether NVIDIA's container runtime starts the image on a node: its variables NVIDIA_REQUIRE_*.

Which variables count is as in nvidia-container-toolkit (internal/config/image); how one is judged depends
on the mode of the runtime: ``legacy_rules`` or ``cdi_rules``. Where the mode is not known both must agree.
"""

import enum
import re
from collections.abc import Callable, Mapping

from gpufleet.cuda.answer import Check, CudaAnswer, Question
from gpufleet.cuda.cdi_rules import cdi_outcomes
from gpufleet.cuda.image import CUDA_VERSION, REQUIRE_CUDA, ImageFacts
from gpufleet.cuda.legacy_rules import legacy_outcomes
from gpufleet.cuda.node import NodeFacts
from gpufleet.cuda.outcome import INVALID, REFUSES, STARTS, Facts, Outcomes
from gpufleet.model.model_errors import printable

DISABLE = "NVIDIA_DISABLE_REQUIRE"
PREFIX = "NVIDIA_REQUIRE_"
JETPACK = "NVIDIA_REQUIRE_JETPACK"
# What Go takes for true; anything else is false.
TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_SEMANTIC = re.compile(r"v?(0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))?)?")
_LARGEST = 2**32 - 1


class Runtime(enum.Enum):
    """The mode of the node's container runtime."""

    LEGACY = "legacy"
    CDI = "cdi"


RULES: dict[Runtime, Callable[[str, Facts], Outcomes]] = {
    Runtime.LEGACY: legacy_outcomes,
    Runtime.CDI: cdi_outcomes,
}


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Whether the image or the pod switches the runtime's check off."""
    return environment.get(DISABLE, "") in TRUE


def required(environment: Mapping[str, str]) -> dict[str, str | None]:
    """What must hold, by the variable that says so; None for a CUDA_VERSION that the runtime refuses.

    An image with CUDA_VERSION and without NVIDIA_REQUIRE_CUDA is one of before there was such a thing: the
    runtime then asks for that version.
    """
    found: dict[str, str | None] = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX) and not name.startswith(JETPACK)
    }
    plain = environment.get(CUDA_VERSION, "")
    if plain and not environment.get(REQUIRE_CUDA):
        found[CUDA_VERSION] = _asked_by_version(plain)
    return found


def check_requirement(image: ImageFacts, node: NodeFacts, runtime: Runtime | None = None) -> Check:
    """Whether the runtime starts it; ``runtime`` None asks both modes."""
    if is_disabled(image.environment):
        return Check(
            Question.REQUIREMENT,
            CudaAnswer.OK,
            f"{DISABLE}={image.environment[DISABLE]} switches the runtime's check off",
            caution="what the image requires is not checked: a driver that is too old shows when it runs",
        )
    asked = required(image.environment)
    runtimes = tuple(Runtime) if runtime is None else (runtime,)
    answers = {name: _answer(value, node, runtimes) for name, value in asked.items()}
    refused = [name for name, answer in answers.items() if answer is CudaAnswer.NO]
    if refused:
        return _refused(refused[0], asked[refused[0]], node)
    unknown = [name for name, answer in answers.items() if answer is CudaAnswer.UNKNOWN]
    if unknown:
        return _undecided(unknown[0], asked[unknown[0]], node, runtimes)
    # A layer that was not read may set the variable.
    if not image.complete:
        return _not_seen(image)
    if not asked:
        return Check(Question.REQUIREMENT, CudaAnswer.OK, "the image requires nothing of the driver")
    return Check(
        Question.REQUIREMENT,
        CudaAnswer.OK,
        f"{_first(asked)} holds with driver {node.driver_text}",
    )


def _answer(value: str | None, node: NodeFacts, runtimes: tuple[Runtime, ...]) -> CudaAnswer:
    if value is None:
        return CudaAnswer.NO
    found = frozenset().union(*(outcomes(value, node, runtime) for runtime in runtimes))
    if found == {STARTS}:
        return CudaAnswer.OK
    return CudaAnswer.UNKNOWN if STARTS in found else CudaAnswer.NO


def outcomes(value: str, node: NodeFacts, runtime: Runtime) -> Outcomes:
    """How one variable comes out on a node, with every brand that its GPU may have."""
    found: Outcomes = frozenset()
    for brand in node.brands:
        facts = Facts(brand=brand.legacy if runtime is Runtime.LEGACY else brand.cdi)
        if node.reported_cuda is not None:
            facts["cuda"] = node.reported_cuda
        if node.driver is not None:
            facts["driver"] = ".".join(str(number) for number in node.driver)
        if node.capability is not None:
            facts["arch"] = node.capability
        found |= RULES[runtime](value, facts)
    return found


def _refused(name: str, value: str | None, node: NodeFacts) -> Check:
    if value is None:
        reason = f"the container runtime refuses {name}, which is no version to it"
        return Check(Question.REQUIREMENT, CudaAnswer.NO, reason, (f"set {REQUIRE_CUDA} or correct {name}",))
    told = {one for runtime in Runtime for one in outcomes(value, node, runtime)}
    if REFUSES not in told and INVALID in told:
        reason = f'the container runtime cannot read {name}={printable(value)} ("invalid expression")'
        return Check(Question.REQUIREMENT, CudaAnswer.NO, reason, (f"correct {name}",))
    first = value.split()[0]
    reason = f'the container runtime stops it: "unsatisfied condition: {first}" ({name}), {_has(node)}'
    ways_out = (
        "update the driver, or use an image of an older CUDA",
        f"set {DISABLE}=1 in the pod, if its toolkit runs there all the same",
    )
    return Check(Question.REQUIREMENT, CudaAnswer.NO, reason, ways_out)


def _undecided(name: str, value: str | None, node: NodeFacts, runtimes: tuple[Runtime, ...]) -> Check:
    reason = f"whether {name} holds is not decided by what is known ({_has(node)})"
    sure = {runtime: outcomes(value or "", node, runtime) for runtime in runtimes}
    if len(sure) > 1 and all(len(one) == 1 for one in sure.values()):
        starts = next(runtime.value for runtime, one in sure.items() if one == {STARTS})
        reason = f"{name} holds for a runtime in mode {starts} and not in the other"
        return Check(
            Question.REQUIREMENT, CudaAnswer.UNKNOWN, reason, ("say --runtime legacy or --runtime cdi",)
        )
    ways_out = []
    if node.driver is None:
        ways_out.append("say the driver")
    elif node.reported_cuda is None:
        ways_out.append(f"run `nvidia-smi` on the node: driver branch {node.driver[0]} is in no table")
    if len(node.brands) > 1:
        ways_out.append("say --brand, as `nvidia-smi -q` tells Product Brand")
    return Check(Question.REQUIREMENT, CudaAnswer.UNKNOWN, reason, tuple(ways_out))


def _not_seen(image: ImageFacts) -> Check:
    return Check(
        Question.REQUIREMENT,
        CudaAnswer.UNKNOWN,
        f"{image.source} does not tell what the image requires: that is in its environment",
        (
            "save it and ask for the file: skopeo copy docker://IMAGE oci-archive:image.tar, or docker save",
            "pass what `docker inspect IMAGE` prints, as a file",
        ),
    )


def _has(node: NodeFacts) -> str:
    """What the node has, in the words of requirements."""
    cuda = "" if node.reported_cuda is None else f" (CUDA {node.reported_cuda})"
    gpu = "" if node.gpu is None else f" on {node.gpu.name}"
    return f"driver {node.driver_text}{cuda}{gpu}"


def _first(asked: dict[str, str | None]) -> str:
    name, value = next(iter(asked.items()))
    return f"{name} ({(value or '').split()[0]} ...)" if " " in (value or "") else f"{name} ({value})"


def _asked_by_version(text: str) -> str | None:
    found = _SEMANTIC.fullmatch(text)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return None if max(major, minor) > _LARGEST else f"cuda>={major}.{minor}"
