"""What the plan of a drain costs at 1,000 nodes of a real API server: memory and time of its process.

While a rollout goes the operator starts this process (``gpufleet.drain.planning``) now and then, in its own
container, so both have to fit into the container's limit. All nodes are still to be changed, ten are closed.
Of the memory the highest resident size of the process counts, as the kernel tells it at its end.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import msgspec

from bench.figures import Figure, figure
from bench.live.arena import PODS_PATH, Arena, arena
from bench.live.objects import GPUS_PER_NODE, Object, pod
from bench.progress import say
from gpufleet.cluster.settings import Settings
from gpufleet.drain.planning_process import MODULE, PlanningAsked
from gpufleet.drain.planning_question import PlanningAnswer, PlanningQuestion, Start
from gpufleet.model.model_errors import WorldError

NODES, CLOSED = 1000, 10
PODS = NODES * GPUS_PER_NODE // 2
"""Half of the GPUs are held: there is work that leaves, and room to which it goes."""

GANG_SIZE = 8
MEMORY_MAX_MIB = 1024.0 - 80.0
"""The chart's limit for the operator, less what the operator itself may take."""

DEADLINE_S = 3600
NAME_GUARD = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/gpufleet-node-name-guard"
)
POLICY_WAIT_S = 60.0
"""Until a server follows its policies; it takes a second or two."""

CREATED = 201
NOTES = (
    (
        f"plan of a drain: {NODES} nodes and {PODS} pods in gangs of {GANG_SIZE} on a real API server; "
        f"{CLOSED} nodes are closed, and all others are to follow"
    ),
)


def figures() -> list[Figure]:
    """The second of two plans counts: the first one may have to compile kernels."""
    with arena(NODES) as here:
        say(f"making {PODS} pods")
        _let_pods_name_nodes(here)
        here.create(_pods())
        for _ in range(2):
            say("planning a drain")
            answer, memory_mib, took_s = _planned(here)
    # No scheduler leads here, which the answer tells beside the plan.
    if answer.plan is None or not answer.plan.work:
        raise WorldError(f"no plan was made: {answer.problem or 'it has no work'}")
    title = f"plan of a drain, {NODES} nodes, {PODS} pods"
    return [
        figure(f"{title}: memory of its process", memory_mib, "MiB", "lower", MEMORY_MAX_MIB),
        figure(f"{title}: time of its process", took_s, "s", "lower"),
    ]


def _let_pods_name_nodes(here: Arena) -> None:
    """No scheduler is at work here, so pods name their nodes, which a policy refuses otherwise."""
    trial = pod("trial", "gpufleet", node_name=_node(0))
    end_s = time.monotonic() + POLICY_WAIT_S
    with here.cluster.api() as api:
        api.call("DELETE", NAME_GUARD)
        while api.request("POST", f"{PODS_PATH}?dryRun=All", trial)[0] != CREATED:
            if time.monotonic() > end_s:
                raise WorldError(f"after {POLICY_WAIT_S:.0f} s no pod may name its node")
            time.sleep(0.2)


def _pods() -> Iterator[Object]:
    for number in range(PODS):
        gang = number // GANG_SIZE
        made = pod(f"train-{number}", "gpufleet", node_name=_node(gang * 2 % NODES))
        metadata = made["metadata"]
        metadata["annotations"] = {"gpufleet.io/gang": f"train-{gang}"}
        # Work of a controller moves; other pods would stay.
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{gang}", "uid": f"uid-{gang}"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        yield made


def _node(number: int) -> str:
    return f"gpu-{number + 1:05}"


def _planned(here: Arena) -> tuple[PlanningAnswer, float, float]:
    names = tuple(map(_node, range(NODES)))
    question = PlanningQuestion(
        closed=dict.fromkeys(names[:CLOSED], round((time.time() + DEADLINE_S) * 1e6)),
        starts={"fleet": Start(CLOSED, names[CLOSED:], DEADLINE_S)},
        later=names[CLOSED:],
    )
    settings = Settings(identity="operator", scheduler_name="gpufleet", lease_namespace="kube-system")
    asked = msgspec.json.encode(PlanningAsked(str(here.cluster.kubeconfig), "", settings, question))
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as question_file, tempfile.TemporaryFile() as answer_file:
        question_file.write(asked)
        question_file.seek(0)
        process = subprocess.Popen((sys.executable, "-m", MODULE), stdin=question_file, stdout=answer_file)
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.monotonic() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise WorldError(f"the process that plans drains ended with {process.returncode}")
        answer_file.seek(0)
        answer = msgspec.json.decode(answer_file.read(), type=PlanningAnswer)
    return answer, usage.ru_maxrss / 1024, took_s
