"""Which nodes offer GPUs by DRA: a driver publishes them in ResourceSlices, and no kubelet counts them."""

import re

from gpufleet.doctor.facts import Facts

_GPU_DRIVER = re.compile(r"(^|\.)gpu\.(.+\.)?(nvidia|amd|intel)\.com$")
"""The names under which makers of GPUs publish, such as gpu.nvidia.com."""


def nodes_with_slices(facts: Facts) -> frozenset[str]:
    """The names of nodes with GPUs in slices."""
    specs = (one.root.at("spec") for one in facts.of_kind("ResourceSlice"))
    return frozenset(
        one.at("nodeName").text or ""
        for one in specs
        if one.at("devices").items() and _GPU_DRIVER.search(one.at("driver").text or "")
    )
