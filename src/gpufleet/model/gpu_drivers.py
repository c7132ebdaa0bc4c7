"""The names under which makers of GPUs give devices to resource claims, such as gpu.nvidia.com."""

import re

_GPU_DRIVER = re.compile(r"(^|\.)gpu\.(.+\.)?(nvidia|amd|intel)\.com$")


def is_gpu_driver(name: str) -> bool:
    """Whether a driver of resource claims gives GPUs."""
    return _GPU_DRIVER.search(name) is not None
