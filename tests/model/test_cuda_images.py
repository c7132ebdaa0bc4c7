"""What the names of images tell of CUDA."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.cuda_compatibility import parse_toolkit
from gpufleet.model.cuda_images import toolkit_of_image


@pytest.mark.parametrize(
    ("image", "toolkit"),
    [
        ("nvidia/cuda:12.3.2-runtime-ubuntu22.04", "12.3.2"),
        ("nvidia/cuda:11.8.0-cudnn8-devel-ubi8", "11.8.0"),
        ("docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04@sha256:0123", "13.0.1"),
        ("nvcr.io/nvidia/cuda:12.4.1", "12.4.1"),
        ("registry.example.com:5000/mirror/nvidia/cuda:10.2-base", "10.2"),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0", "12.5.0"),
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime", "12.4"),
        ("runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04", "12.8.1"),
        ("rayproject/ray:2.9.0-py310-cu118", "11.8"),
        ("lmsysorg/sglang:v0.5.15-cu129", "12.9"),
        ("rapidsai/base:24.02-cuda12.0-py3.10", "12.0"),
        ("example.com/train:torch2.4.0_CUDA12.4", "12.4"),
    ],
)
def test_names_that_tell(image: str, toolkit: str) -> None:
    assert toolkit_of_image(image) == parse_toolkit(toolkit)


@pytest.mark.parametrize(
    "image",
    [
        "",
        "busybox",
        "nvidia/cuda",
        "nvidia/cuda:latest",
        "nvidia/cuda:ubuntu22.04",
        "nvcr.io/nvidia/pytorch:24.01-py3",
        "nvcr.io/nvidia/tritonserver:24.05-py3",
        "vllm/vllm-openai:v0.6.0",
        "example.com/cuda12.4/app:1.0",
        "example.com/app:cuda12",
        "example.com/app:accu124",
        "example.com/app:cu1290",
        "example.com/app:cuda12.4.1.5",
        "example.com/app:cuda11.8-and-cuda12.4",
        "x" * 2000 + ":cuda12.4",
    ],
)
def test_names_that_do_not_tell(image: str) -> None:
    assert toolkit_of_image(image) is None


@given(st.text(max_size=300))
def test_no_text_fails(image: str) -> None:
    toolkit_of_image(image)
