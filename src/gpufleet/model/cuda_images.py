"""Which CUDA toolkit a container image is of, as far as its name tells.

NVIDIA's own images carry it as their tag (nvidia/cuda:12.3.2-runtime-ubuntu22.04); many others name it
somewhere in theirs (pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime, rayproject/ray:2.9.0-py310-cu118).
Images of NVIDIA's catalogue with a tag of year and month (nvcr.io/nvidia/pytorch:24.01-py3) do not tell.
"""

import functools
import re

from gpufleet.model.cuda_compatibility import Toolkit, parse_toolkit

MAXIMUM_LENGTH = 1024
"""Longer references are not searched: no registry takes them."""

_OWN_TAG = re.compile(r"([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)(?:-.*)?")
_NAMED = re.compile(r"(?<![a-z0-9])cuda[-_]?([0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,2})?)(?![0-9.]*[0-9])")
_WHEEL = re.compile(r"(?<![a-z0-9])cu([0-9]{2})([0-9])(?![a-z0-9])")
"""The name of PyTorch's wheels: cu124 is CUDA 12.4."""


@functools.lru_cache(maxsize=4096)
def toolkit_of_image(reference: str) -> Toolkit | None:
    """The toolkit that an image reference names; None where it names none, or several."""
    if len(reference) > MAXIMUM_LENGTH:
        return None
    named, _, _ = reference.partition("@")
    repository, tag = _split(named)
    if f"/{repository}".endswith("/nvidia/cuda"):
        own = _OWN_TAG.fullmatch(tag)
        return None if own is None else parse_toolkit(own[1])
    text = tag.lower()
    found = {parse_toolkit(version) for version in _NAMED.findall(text)}
    found |= {Toolkit(int(major), int(minor)) for major, minor in _WHEEL.findall(text)}
    known = {toolkit for toolkit in found if toolkit is not None}
    releases = {(toolkit.major, toolkit.minor) for toolkit in known}
    if len(releases) != 1:
        return None
    return max(known, key=lambda toolkit: -1 if toolkit.update is None else toolkit.update)


def is_pytorch_build(reference: str) -> bool:
    """Whether it is an image of PyTorch itself, which brings the build that PyTorch publishes."""
    if len(reference) > MAXIMUM_LENGTH:
        return False
    repository, _ = _split(reference.partition("@")[0])
    return f"/{repository}".endswith("/pytorch/pytorch")


def _split(named: str) -> tuple[str, str]:
    """Repository and tag; a colon before the last slash is a registry's port."""
    path, slash, last = named.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{path}{slash}{name}", tag
