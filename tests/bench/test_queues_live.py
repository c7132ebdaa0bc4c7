"""KAI's cases on a real control plane run, with a few nodes."""

from bench.queues import live
from gpufleet.localkube.control_plane import Options
from tests.localkube.cluster import KUBERNETES, all_programs, program


def test_kais_cases_on_a_few_nodes() -> None:
    all_programs(Options(kubernetes=KUBERNETES))
    program("kube-scheduler")
    found = live.figures(nodes=11, times=1)
    assert len(found) == 2 * len(live.PUBLISHED_S)
    assert all(one.value > 0 and one.target is not None for one in found)
