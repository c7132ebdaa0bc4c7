"""The whole name of an image: with its registry, and with a tag where it has neither tag nor digest.

Pods write ``vllm/vllm-openai:v0.9``, container runtimes list ``docker.io/vllm/vllm-openai:v0.9``. The rules
are those of the reference grammar of the project distribution.
"""

import re

HUB, LIBRARY, LATEST = "docker.io", "library", "latest"
CHARACTERS_MAX = 253
"""As much as NodeData takes for a name; longer ones are of no use to any registry that is known."""

_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def whole_image_name(written: str) -> tuple[str, str] | None:
    """Name and digest: "docker.io/library/busybox:1" and "", or "host/name" and "sha256:..".

    None for what is no reference of an image. A tag beside a digest says nothing, and is left out.
    """
    rest, at, digest = written.partition("@")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    name = _with_host(f"{head}{slash}{last}")
    # With what a registry and a tag add, which are not written.
    if len(f"{name}:{tag or LATEST}") > CHARACTERS_MAX or not _NAME.fullmatch(name):
        return None
    if colon and not _TAG.fullmatch(tag):
        return None
    if at:
        return (name, digest) if _DIGEST.fullmatch(digest) else None
    return f"{name}:{tag or LATEST}", ""


def _with_host(name: str) -> str:
    """The name with the registry that is meant where none is written."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"{HUB}/{name}" if slash else f"{HUB}/{LIBRARY}/{name}"
