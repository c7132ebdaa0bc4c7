"""Whole names of images: the cases of the reference grammar of the project distribution."""

import pytest

from gpufleet.kube.meanings.image_names import whole_image_name

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("written", "name", "digest"),
    [
        # As `docker pull` and the CRI's listing spell them.
        ("busybox", "docker.io/library/busybox:latest", ""),
        ("busybox:1.36", "docker.io/library/busybox:1.36", ""),
        ("vllm/vllm-openai:v0.9", "docker.io/vllm/vllm-openai:v0.9", ""),
        ("localhost/x", "localhost/x:latest", ""),
        ("127.0.0.1:5000/team/x:1", "127.0.0.1:5000/team/x:1", ""),
        ("nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io/nvidia/pytorch:24.01-py3", ""),
        (f"ghcr.io/a/b:tag@{DIGEST}", "ghcr.io/a/b", DIGEST),
        (f"b@{DIGEST}", "docker.io/library/b", DIGEST),
    ],
)
def test_a_name_gets_what_is_meant_and_not_written(written: str, name: str, digest: str) -> None:
    assert whole_image_name(written) == (name, digest)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "UPPER/case",
        "a b",
        "x:",
        "x:bad tag",
        # 246 characters, and ten more with the registry.
        "a/" + "b" * 240 + ":tag",
        "x@sha256:1",
        "x@",
        "../x",
        "http://host/x",
        "a/../b",
        "x" * 300,
    ],
)
def test_what_is_no_name_is_none(written: str) -> None:
    assert whole_image_name(written) is None
