"""Want of host memory is told once for all work with the same limit, and follows from nothing else."""

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of

# The node offers GPUs and lacks the label of its product, which is a failure of its own.
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: metal-1
  labels: {nvidia.com/gpu.present: "true"}
status:
  capacity: {nvidia.com/gpu: 8}
  allocatable: {nvidia.com/gpu: 8}
  conditions: [{type: Ready, status: "True"}]
"""
KILLED = """\
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team}
spec:
  nodeName: metal-1
  containers:
    - {name: main, image: "registry.example/serve:1", resources: {limits: {nvidia.com/gpu: 1, memory: %s}}}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}]
  containerStatuses:
    - name: main
      restartCount: %d
      state: {waiting: {reason: CrashLoopBackOff}}
      lastState: {terminated: {reason: OOMKilled, exitCode: 137, finishedAt: "2026-11-22T11:50:00Z"}}
"""


def test_work_with_one_limit_has_one_cause() -> None:
    pods = [("a", "8Gi", 5), ("b", "8Gi", 9), ("c", "64Gi", 3)]
    found = diagnose(facts_of(NODE + "".join(KILLED % one for one in pods)), all_checks())
    causes = [one.failure for one in found.causes if one.check.id == "host-memory-short"]
    assert [one.says for one in causes] == [
        "Pod team/a, Pod team/b: main was killed 9 times for memory of the host",
        "Pod team/c: main was killed 3 times for memory of the host",
    ]
    assert causes[0].evidence == (
        "memory limit: 8Gi",
        "Pod team/a: OOMKilled, 5 restarts",
        "Pod team/b: OOMKilled, 9 restarts",
    )
