"""The meter of fragmentation against a slow one, written from its definition (Weng et al., section 4)."""

from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.model.shape import Shape
from gpufleet.replay.arrivals import ArrivalUnit, saturating, source_of, units_of
from gpufleet.replay.csv_export import Placement
from gpufleet.replay.data_files import shipped_node_list, shipped_task_list
from gpufleet.replay.saturate import SaturateRun
from gpufleet.replay.tally import Tally
from gpufleet.replay.trace import Trace, read_trace
from gpufleet.replay.typical import typical_workload
from tests.replay.small_traces import set_up, small_files, trace_of_rows


class SlowFleet:
    """Free CPU of every node and free milli of every GPU, and the fragmentation by its definition."""

    def __init__(self, trace: Trace) -> None:
        self.cpu = {str(node.name): node.allocatable.cpu_milli for node in trace.nodes}
        self.models = {str(node.name): {device.model for device in node.devices} for node in trace.nodes}
        self.idle = {
            str(node.name): {str(device.id): 1000 for device in node.devices} for node in trace.nodes
        }
        self.workload = typical_workload(trace.tasks)

    def place(self, task: Shape, placement: Placement) -> None:
        """Take what the placement gives away."""
        name = str(placement.node)
        self.cpu[name] -= task.resources.cpu_milli
        for device in placement.devices:
            self.idle[name][device] -= placement.gpu_milli

    def unusable(self, name: str, task: Shape) -> int:
        """F_n(m): idle milli of a node that this task cannot use."""
        idle = self.idle[name].values()
        fitting = sum(1 for milli in idle if milli >= task.gpu.gpu_milli)
        accepted = not task.gpu.models or self.models[name] & set(task.gpu.models)
        fits = self.cpu[name] >= task.resources.cpu_milli and fitting >= task.gpu.count and accepted
        if task.gpu.count == 0 or not fits:
            return sum(idle)
        return sum(milli for milli in idle if milli < task.gpu.gpu_milli)

    def fragmented_milli(self) -> Fraction:
        """F: expected over the workload, summed over the nodes."""
        total = sum(count for _, count in self.workload)
        return sum(
            (
                Fraction(count * self.unusable(name, task), total)
                for name in self.cpu
                for task, count in self.workload
            ),
            Fraction(0),
        )


@pytest.mark.parametrize("policy", ["fgd", "best-fit", "random"])
def test_after_every_arrival_it_is_what_the_definition_says(policy: str, tmp_path: Path) -> None:
    trace = read_trace(*small_files(tmp_path))
    measured, meter = set_up(trace, policy)
    slow = SlowFleet(trace)
    assert Fraction(meter.fragmented, meter.weight) == slow.fragmented_milli()
    run = SaturateRun(measured, meter, Tally(15, meter.weight))
    shape_by_task = {one.name: one.shape for one in trace.tasks}
    for unit in saturating(units_of(trace), 15_000, 1.3, source_of(1)):
        done = len(run.placements)
        run.run([ArrivalUnit(unit.tasks)])
        for placement in run.placements[done:]:
            if placement.node is not None:
                slow.place(shape_by_task[placement.pod.partition("+")[0]], placement)
        assert Fraction(meter.fragmented, meter.weight) == slow.fragmented_milli()


def test_the_empty_default_cluster_shows_14_percent() -> None:
    """Tasks without GPU count all that is idle, and they are 14 % of the typical ones."""
    trace = read_trace(shipped_node_list(), shipped_task_list())
    _, meter = set_up(trace)
    assert round(100 * meter.fragmented / meter.weight / 6_212_000) == 14


def test_a_full_cluster_has_no_fragments(tmp_path: Path) -> None:
    trace = trace_of_rows(tmp_path, ("n,64000,1,2,T4",), "", "a,1,1,2,1000")
    measured, meter = set_up(trace)
    assert meter.fragmented == 0
    SaturateRun(measured, meter, Tally(2, meter.weight)).run(units_of(trace))
    assert meter.fragmented == 0


def test_half_a_gpu_is_a_fragment_where_whole_ones_are_wanted(tmp_path: Path) -> None:
    wanted = [f"w{number},1,1,1,1000" for number in range(97)]
    trace = trace_of_rows(tmp_path, ("n,64000,1,2,T4",), "", *wanted, "half,1,1,1,500")
    measured, meter = set_up(trace)
    SaturateRun(measured, meter, Tally(2, meter.weight)).run(units_of(trace)[-1:])
    assert meter.fragmented == 500 * meter.weight
