"""What keeps GPUs idle at the end of a run, on nodes that were filled by hand."""

from pathlib import Path

import pytest

from gpufleet.model.resources import MEBIBYTE
from gpufleet.replay.arrivals import units_of
from gpufleet.replay.idle import FleetView, node_type, split_by_reason, typical_gpu_shapes, used_pct
from gpufleet.replay.saturate import SaturateRun
from gpufleet.replay.tally import Tally
from tests.replay.small_traces import set_up, shape, task, trace_of_rows

WANTED = [
    (shape(500, cpu_milli=4000, memory_mib=100), 6),
    (shape(1000, cpu_milli=2000, memory_mib=800), 3),
    (shape(1000, 2, cpu_milli=8000, memory_mib=100), 1),
]


@pytest.mark.parametrize(
    ("idle_milli", "cpu_milli", "memory_mib", "milli_by_reason"),
    [
        ([400], 9000, 900, {"scraps": 400}),
        # six of ten requests fit 500 milli; 1000 milli are right for nine of ten
        ([500, 1000], 9000, 900, {"usable": 300 + 900, "scraps": 200 + 100}),
        ([500], 3999, 900, {"cpu": 300, "scraps": 200}),
        ([500], 9000, 99, {"memory": 300, "scraps": 200}),
        ([500], 3999, 99, {"cpu and memory": 300, "scraps": 200}),
        # enough CPU for the second request only, enough memory for the first only
        ([1000], 3000, 200, {"cpu": 600, "memory": 300, "scraps": 100}),
        ([0], 9000, 900, {"scraps": 0}),
    ],
)
def test_idle_parts_are_split_over_the_requests(
    idle_milli: list[int], cpu_milli: int, memory_mib: int, milli_by_reason: dict[str, float]
) -> None:
    found = split_by_reason(WANTED, idle_milli, cpu_milli, memory_mib * MEBIBYTE)
    assert found == pytest.approx(milli_by_reason)


def test_requests_of_several_gpus_need_as_many_free_ones() -> None:
    pair = [(shape(1000, 2), 1)]
    assert split_by_reason(pair, [1000], 9000, MEBIBYTE) == {"scraps": 1000}
    assert split_by_reason(pair, [1000, 1000], 9000, MEBIBYTE) == {"usable": 2000}


def test_typical_requests_cover_95_percent_of_the_gpu_tasks() -> None:
    tasks = [
        *(task(f"cpu{number}", 0, 0) for number in range(500)),
        *(task(f"often{number}", 500) for number in range(95)),
        *(task(f"rare{number}", 100) for number in range(5)),
    ]
    assert [(one.gpu.gpu_milli, count) for one, count in typical_gpu_shapes(tasks)] == [(500, 95)]


def test_idle_gpus_by_type_of_node(tmp_path: Path) -> None:
    """n0 keeps 1.4 idle of which 0.4 is a scrap; n1 has a whole one but no CPU; n2 is full."""
    nodes = ("n0,32000,8192,2,T4", "n1,8000,8192,1,G2", "n2,32000,8192,2,T4", "host,64000,8192,0,")
    rows = ("a,1000,1,1,600,", "b,1000,1,2,1000,", "c,7500,1,0,0,")
    trace = trace_of_rows(tmp_path, nodes, "node_selector", *rows)
    measured, meter = set_up(trace)
    SaturateRun(measured, meter, Tally(5, meter.weight)).run(units_of(trace)[:2])
    view = FleetView(measured.engine)
    found = {one.node_type: one for one in view.idle_by_type([(shape(500, cpu_milli=9000), 1)])}
    assert list(found) == ["2x T4, 32 cores, 8 GiB", "1x G2, 8 cores, 8 GiB"]
    two = found["2x T4, 32 cores, 8 GiB"]
    assert (two.nodes, two.gpus) == (2, 4)
    # a is on the G2, as the node with the least beside it; b fills one of the T4 nodes
    assert (two.idle_gpus, two.idle_by_reason) == (2.0, {"usable": 2.0})
    one = found["1x G2, 8 cores, 8 GiB"]
    assert (one.idle_gpus, one.idle_by_reason) == (0.4, {"scraps": 0.4})
    picture = {node.name: (node.gpu_used_milli, node.cpu_used_pct) for node in view.picture()}
    assert picture["n1"] == ([600], 12.5)
    assert picture["host"] == ([], 0.0)
    assert sorted(picture[name][0] for name in ("n0", "n2")) == [[0, 0], [1000, 1000]]


def test_type_of_a_node_in_words(tmp_path: Path) -> None:
    nodes = ("a,96500,393216,8,G2", "b,4000,2048,1,", "c,4000,2048,0,")
    trace = trace_of_rows(tmp_path, nodes, "", "t,1,1,0,0")
    assert [node_type(node) for node in trace.nodes] == [
        "8x G2, 96.5 cores, 384 GiB",
        "1x GPU, 4 cores, 2 GiB",
        "no GPU, 4 cores, 2 GiB",
    ]


def test_used_percent() -> None:
    assert (used_pct(3000, 1000), used_pct(0, 0)) == (66.7, 0.0)
