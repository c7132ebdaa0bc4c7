"""The part of a GPU that a resource's name stands for."""

import pytest

from gpufleet.model.named_parts import named_part_milli

# NVIDIA's MIG User Guide and AMD's guide to partitions: of seven slices, of four, of two to eight partitions.
TABLE = [
    ("nvidia.com/mig-1g.10gb", 142),
    ("nvidia.com/mig-1g.10gb.me", 142),
    ("nvidia.com/mig-3g.40gb", 428),
    ("nvidia.com/mig-7g.80gb", 1000),
    ("nvidia.com/mig-1c.3g.40gb", 142),
    ("nvidia.com/mig-1g.6gb", 250),
    ("nvidia.com/mig-4g.24gb", 1000),
    # An H100 of 96 GB has seven slices, an RTX PRO 6000 four.
    ("nvidia.com/mig-1g.24gb", 250),
    ("nvidia.com/mig-1g.999gb", 142),
    ("nvidia.com/gpu.shared", 500),
    ("amd.com/spx_nps1", 1000),
    ("amd.com/dpx_nps1", 500),
    ("amd.com/qpx_nps4", 250),
    # Six on an MI300A, eight on an MI300X.
    ("amd.com/cpx_nps4", 166),
    # Whole GPUs are counted as devices, and these are no GPUs.
    ("nvidia.com/gpu", 0),
    ("amd.com/gpu", 0),
    ("gpu.intel.com/xe", 0),
    ("nvidia.com/mig-strange", 0),
    ("example.com/disk", 0),
    ("hugepages-2Mi", 0),
]


@pytest.mark.parametrize(("resource", "milli"), TABLE)
def test_the_name_of_a_resource_tells_which_part_of_a_gpu_it_is(resource: str, milli: int) -> None:
    assert named_part_milli(resource) == milli
