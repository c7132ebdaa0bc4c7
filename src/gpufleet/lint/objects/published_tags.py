"""Tags of well-known images that are surely not in their registries: taken away, or never put there.

No registry is asked. The tables tell what their sources told on the day of ``AS_OF``. Images of other
repositories are not known here, mirrors of these among them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet.lint.objects.images import ImageReference

AS_OF = "2026-11-30"
"""When the tables were last compared with their sources."""

SOURCES = (
    "nvidia/cuda of CUDA 10 and older was taken away: github.com/NVIDIA/nvidia-docker/issues/1768 (2023-07)",
    "nvidia/cuda:10.2-base was taken away: github.com/docker/docs/pull/18898 (2023-12)",
    "nvidia/cuda of CUDA 11.2.1 was taken away: github.com/iterative/cml/pull/1405 (2023-07)",
    "every tag of nvidia/cuda has three numbers and a system: NVIDIA's doc/supported-tags.md of autumn 2023",
    "so has each in doc/unsupported-tags.md: github.com/taehun-kmu/FMCL-Docker keeps both files (1128da10)",
    "there is no CUDA 12.7: model/cuda_compatibility.py and its sources",
    "vllm/vllm-openai has no v0.3.1: github.com/vllm-project/vllm/issues/2914",
    "how releases are tagged: the documents of vLLM, SGLang, Ollama, Text Generation Inference and NGC",
)


@dataclass(frozen=True)
class AbsentTag:
    """Why a tag is not there, and the way out."""

    why: str
    advice: str


@dataclass(frozen=True)
class LaterTag:
    """A tag that may have come after the tables were made."""


Presence = AbsentTag | LaterTag | None
"""What is known of a tag; None where nothing speaks against it."""

_OF_DOCKER = re.compile(r"(docker|index\.docker|registry-1\.docker)\.io/")
_VERSION = r"(\d{1,2})(?:\.(\d{1,2}))?(?:\.(\d{1,2}))?"
_CUDA = re.compile(rf"{_VERSION}(?:-cudnn\d*)?(?:-(?:base|runtime|devel))?(-[a-z]+[\d.]+)?")
_CUDA_ADVICE = "write a whole tag that is there, such as 12.4.1-base-ubuntu22.04"
_LAST_UPDATES = {
    11: (3, 1, 2, 1, 4, 2, 2, 1, 0),
    12: (1, 1, 2, 2, 1, 1, 3, -1, 1, 1),
    13: (2,),
}
"""The last update of each CUDA, from the first of its major version on; of 12.7 there is none at all."""

_CLOSED = frozenset({11})
"""Major versions to which none is added any more."""


def _cuda(tag: str) -> Presence:
    found = _CUDA.fullmatch(tag)
    if found is None:
        return None
    if int(found[1]) < 11:
        return AbsentTag("NVIDIA took those of CUDA 10 and older away in 2023", _CUDA_ADVICE)
    if found[3] is None or found[4] is None:
        lacks = "an operating system at the end" if found[4] is None else "a version of three numbers"
        return AbsentTag(f"it lacks {lacks}, which all that NVIDIA publishes have", _CUDA_ADVICE)
    return _cuda_version(int(found[1]), int(found[2]), int(found[3]))


def _cuda_version(major: int, minor: int, update: int) -> Presence:
    if (major, minor, update) == (11, 2, 1):
        return AbsentTag("NVIDIA took those of CUDA 11.2.1 away in 2023", _CUDA_ADVICE)
    updates = _LAST_UPDATES.get(major, ())
    if minor < len(updates) and update <= updates[minor]:
        return None
    # What comes after the newest that the table has may be out by now.
    if minor >= len(updates) - 1 and major not in _CLOSED:
        return LaterTag()
    return AbsentTag(f"there is no CUDA {major}.{minor}.{update}", _CUDA_ADVICE)


def _absent(pattern: str, why: str, advice: str) -> Callable[[str], Presence]:
    compiled, told = re.compile(pattern), AbsentTag(why, advice)
    return lambda tag: told if compiled.fullmatch(tag) else None


def _first(*ways: Callable[[str], Presence]) -> Callable[[str], Presence]:
    return lambda tag: next((told for way in ways if (told := way(tag)) is not None), None)


_WITH_V = _absent(r"\d+\.\d+.*", "tags of its releases begin with a v", "write a v before the version")
_WITHOUT_V = _absent(r"v\d+\.\d+.*", "tags of its releases begin with no v", "leave the v out")
_BY_MONTH = _absent(
    r"\d\d\.\d\d",
    "NVIDIA names what is in it after the month",
    "write a whole tag, such as 25.09-py3",
)
_VLLM = _first(
    _WITH_V,
    _absent(r"v\d+\.\d+", "a version of vLLM has three numbers", "write all three, as in v0.6.6"),
    _absent(r"v0\.3\.1", "vLLM never pushed it", "write v0.3.2 or another version"),
)
_WAYS: dict[str, Callable[[str], Presence]] = {
    "nvidia/cuda": _cuda,
    "nvcr.io/nvidia/cuda": _cuda,
    "vllm/vllm-openai": _VLLM,
    "lmsysorg/sglang": _WITH_V,
    "nvcr.io/nvidia/pytorch": _BY_MONTH,
    "nvcr.io/nvidia/tritonserver": _BY_MONTH,
    "ghcr.io/huggingface/text-generation-inference": _WITHOUT_V,
    "ollama/ollama": _WITHOUT_V,
}


def presence(image: ImageReference) -> Presence:
    """What is known of the tag of an image. One with a digest is fetched by that, whatever its tag.

    A tag that moves, or none at all, is to be replaced in any case: rule GPU011 says so.
    """
    way = _WAYS.get(_OF_DOCKER.sub("", image.repository, count=1))
    return (
        None if way is None or image.digest or image.is_left_open or not image.is_pinned else way(image.tag)
    )
