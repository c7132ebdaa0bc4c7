"""KAI's cases on a real control plane run, with a few nodes."""

from bench.queues import live
from gpufleet.localkube.control_plane import Options
from tests.localkube.cluster import KUBERNETES, all_programs, program


def test_kais_cases_on_a_few_nodes() -> None:
    all_programs(Options(kubernetes=KUBERNETES))
    program("kube-scheduler")
    found = live.figures(nodes=11, times=1)
    judged = [one for one in found if one.target is not None]
    assert len(judged) == 2 * len(live.PUBLISHED_S)
    assert len(found) == len(judged) + 3
    assert all(one.value > 0 for one in found)
