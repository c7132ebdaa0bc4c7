"""Of victims that are alike the one goes whose end loses least GPU time; a part of a GPU counts as a part."""

import pytest

from gpufleet.engine.event import PodBound
from gpufleet.model.identifiers import DeviceId, NodeName
from tests.engine.fleet_builder import SECOND_US, Story, evicted, node, pod, shape

# How long a pod of one resource ran, and which pod goes beside one that has had a whole GPU for 100 s.
# Of seven compute slices one is 1/7 of a GPU: 600 s are 86 s of a GPU, 800 s are 114 s.
CASES = [
    ("nvidia.com/mig-1g.10gb", 1, 600, "part"),
    ("nvidia.com/mig-1g.10gb", 1, 800, "whole"),
    ("nvidia.com/mig-1g.10gb", 2, 300, "part"),
    ("nvidia.com/mig-1g.10gb", 2, 400, "whole"),
    ("nvidia.com/mig-3g.40gb", 1, 220, "part"),
    ("nvidia.com/mig-3g.40gb", 1, 250, "whole"),
    ("nvidia.com/mig-1g.6gb", 1, 390, "part"),
    ("nvidia.com/mig-1g.6gb", 1, 410, "whole"),
    ("amd.com/qpx_nps4", 1, 390, "part"),
    ("amd.com/qpx_nps4", 1, 410, "whole"),
    # Time without a GPU is worth a thousandth.
    ("example.com/disk", 1, 900, "part"),
]


@pytest.mark.parametrize(("resource", "count", "ran_s", "victim"), CASES)
def test_a_part_of_a_gpu_loses_its_part_of_the_time(
    resource: str, count: int, ran_s: int, victim: str
) -> None:
    told = Story()
    told.nodes(node("n", 1, cpu_milli=8000, other=((resource, 7),)))
    told.at_us = 1000 * SECOND_US
    part = pod("part", shape(cpu_milli=4000, other=((resource, count),)))
    whole = pod("whole", shape(1, cpu_milli=4000))
    told.happen(
        PodBound(part, NodeName("n"), (), told.at_us - ran_s * SECOND_US),
        PodBound(whole, NodeName("n"), (DeviceId("n/0"),), told.at_us - 100 * SECOND_US),
    )
    assert list(evicted(told.arrive(pod("high", shape(cpu_milli=4000), priority=5)))) == [victim]
