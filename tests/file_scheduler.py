"""How the tests are shared out among the workers: file by file, the dearest files first.

All tests of a file run in one worker, so a real server that a file starts is started once. A file that
takes minutes begins early, so no worker is left alone with it at the end. ``--dist=loadfile`` asks for this
scheduler in place of the one of pytest-xdist, which orders files by their number of tests.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from xdist.scheduler import WorkStealingScheduling

DEAREST: tuple[str, ...] = (
    "tests/simulation/test_live_scheduler.py",
    "tests/chaos/test_faults.py",
    "tests/engine/reference/test_agreement.py",
    "tests/guides/test_real_node.py",
    "tests/agent/test_churn_on_a_real_node.py",
    "tests/simulation/test_agreement.py",
    "tests/metrics/test_autoscaling.py",
    "tests/chart/test_installed.py",
    "tests/differential/preemption/test_preemption.py",
    "tests/differential/test_differential.py",
    "tests/agent/test_health_on_a_real_node.py",
    "tests/guides/test_simulated_nodes.py",
    "tests/localkube/test_operate_walk.py",
    "tests/agent/dra/test_claims_on_a_real_node.py",
    "tests/engine/preempt/test_restart.py",
    "tests/alerts/test_faults_on_a_real_scheduler.py",
    "tests/localkube/test_see_walk.py",
    "tests/agent/test_real_kubelet.py",
    "tests/localkube/test_same_answer.py",
    "tests/chart/test_upgrade.py",
    "tests/agent/test_faults_on_a_real_node.py",
    "tests/agent/test_shares_on_a_real_node.py",
    "tests/localkube/test_queues_walk.py",
    "tests/scheduler/test_restarts_at_random.py",
    "tests/chaos/test_leader.py",
    "tests/web/test_what_people_see.py",
    "tests/localkube/test_gpu_walk.py",
    "tests/web/test_page_in_browser.py",
    "tests/localkube/test_autoscaling_walk.py",
    "tests/differential/test_sensitivity.py",
    "tests/simulation/test_every_death.py",
    "tests/localkube/test_persistent.py",
    "tests/localkube/test_doctor_walk.py",
    "tests/dashboards/test_boards_on_a_real_prometheus.py",
    "tests/hostile/test_hostile_tenants.py",
    "tests/engine/test_determinism.py",
    "tests/localkube/test_page_walks.py",
    "tests/differential/preemption/test_sensitivity.py",
    "tests/alerts/test_faults_on_a_real_agent.py",
    "tests/web/test_page_on_a_real_server.py",
    "tests/simulation/test_scenario.py",
    "tests/simulation/test_node.py",
    "tests/agent/test_guides_on_a_real_node.py",
    "tests/web/test_faults.py",
    "tests/cli/test_bad_cluster.py",
    "tests/localkube/test_real_node.py",
    "tests/alerts/test_silent_watch.py",
    "tests/replay/report/test_report_in_browser.py",
    "tests/localkube/test_cut_real_node.py",
    "tests/agent/test_sharing_on_a_real_node.py",
    "tests/alerts/test_catalogue.py",
    "tests/top/test_on_a_real_server.py",
    "tests/scheduler/test_decisions_that_last.py",
    "tests/localkube/test_cluster.py",
    "tests/scheduler/test_bound_terms.py",
    "tests/replay/report/test_report_files.py",
    "tests/operator/test_on_a_real_server.py",
    "tests/operator/projects/test_on_a_real_server.py",
    "tests/dra_allocation/test_against_reference.py",
    "tests/operator/projects/test_ending.py",
    "tests/operator/test_rollouts_on_a_real_server.py",
    "tests/chaos/test_server_returns.py",
    "tests/engine/reserve/test_bound.py",
    "tests/replay/test_trace_properties.py",
    "tests/scheduler/test_reservation_on_a_real_server.py",
    "tests/localkube/test_examples.py",
    "tests/scheduler/test_garbage_collection.py",
    "tests/drain/test_on_a_real_server.py",
    "tests/replay/test_ray_sweep.py",
)
"""Files that take half a minute or more, about the longest first.

Those that compute stand among those that wait for a real server, so that the workers do both at any time. A
file that is missing here begins later than it should.
"""

TOGETHER = ("tests/conventions/",)
"""Folders that one worker runs as if they were a file.

Each worker that runs a part of the conventions parses all modules, which takes 11 s.
"""

LEAST_PENDING = 2
"""A worker runs a test once it has the next one, or knows that there is none."""


def dearest_first(files: Iterable[str]) -> list[int]:
    """The places of tests in a list of their files, in the order in which they are to run."""
    rank = {name: number for number, name in enumerate(DEAREST)}
    ranks = [rank.get(name, len(rank)) for name in files]
    return sorted(range(len(ranks)), key=ranks.__getitem__)


def length_of_file(names: Iterable[str]) -> int:
    """How many of these tests, from the first, are of one file, or of one folder that is run together."""
    files = map(_shared_by, names)
    first = next(files)
    length = 1
    for file in files:
        if file != first:
            break
        length += 1
    return length


def _shared_by(name: str) -> str:
    folder = next((one for one in TOGETHER if name.startswith(one)), None)
    return folder or name.partition("::")[0]


class FileScheduler(WorkStealingScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives the next file to each worker that is nearly done. No worker takes tests from another."""

    def check_schedule(self) -> None:
        """Give work to all workers that have too little, and let those end for which there is none."""
        for node in self._waiting():
            while self.pending and len(self.node2pending[node]) < LEAST_PENDING:
                names = (self.collection[number] for number in self.pending)
                self._send_tests(node, length_of_file(names))
            if len(self.node2pending[node]) < LEAST_PENDING:
                node.shutdown()

    def _waiting(self) -> Iterator[Any]:
        return (
            node
            for node, pending in list(self.node2pending.items())
            if not node.shutting_down and len(pending) < LEAST_PENDING
        )
