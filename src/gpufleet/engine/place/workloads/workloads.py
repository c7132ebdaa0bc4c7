"""Finds the workload of a pod, of a line or of a name: the one place that asks whether there is a gang.

A pod that names a gang which is not described belongs to no workload that could start. As long as it is asked
about alone, it is a single pod.
"""

from gpufleet.engine.place.gangs.gangs import Gangs
from gpufleet.engine.place.workloads.gang_workload import GangWorkload
from gpufleet.engine.place.workloads.single_pod import SinglePod
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.engine.queueing.line import Line
from gpufleet.engine.state.gang_members import Members
from gpufleet.engine.state.pods import PodTable
from gpufleet.model.gang import Gang
from gpufleet.model.pod import Pod


class Workloads:
    """All workloads of an engine."""

    def __init__(self, pods: PodTable, gangs: Gangs) -> None:
        self.pods = pods
        self.gangs = gangs

    def single(self, row: int) -> SinglePod:
        """The workload that is this pod alone."""
        return SinglePod(self.pods, row)

    def of_members(self, members: Members) -> GangWorkload:
        """The workload of the members of a described gang."""
        return GangWorkload(self.gangs, members)

    def of(self, row: int) -> Workload:
        """The workload to which a pod belongs."""
        gang = self.gang_of(row)
        return self.single(row) if gang is None else self.of_members(self.gangs.by_name[gang.name])

    def first_of(self, line: Line) -> Workload:
        """The workload whose turn it is in a line with waiting work."""
        name = line.key.gang
        return self.single(line.waiting[0][-1]) if name is None else self.of_members(self.gangs.by_name[name])

    def members_of(self, row: int) -> Members | None:
        """The members of the gang that a pod names, described or not; None for a pod that names none."""
        name = self.pods.pod_at(row).gang
        return None if name is None else self.gangs.by_name.get(name)

    def gang_of(self, row: int) -> Gang | None:
        """The gang of a pod; None for a pod of none, or of one that is not described."""
        members = self.members_of(row)
        return None if members is None else members.gang

    def lacks_gang(self, row: int) -> bool:
        """True for a pod that names a gang which is not described."""
        return self.pods.pod_at(row).gang is not None and self.gang_of(row) is None

    def nominated_with(self, row: int) -> list[int]:
        """The members of the gang of a pod that have nominations, itself among them if it has one."""
        members = self.members_of(row)
        return [] if members is None else list(members.nominated)

    def ranked(self, row: int) -> Pod | Gang:
        """What has the queue, the priority and the age of a pod: its gang, or the pod itself."""
        pod = self.pods.pod_at(row)
        # Asked for every pod that comes and starts, so what most pods need costs one test.
        return pod if pod.gang is None else self.gang_of(row) or pod
