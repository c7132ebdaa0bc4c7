"""What may be meant so, or mends itself, is no failure: cases that cannot be staged in a moment."""

import pytest

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from tests.doctor.facts_of_text import facts_of

# The clock of these facts stands at 2026-11-22 12:00 UTC.
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: metal-1
  labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
spec: {providerID: "%s"}
status:
  capacity: {nvidia.com/gpu: 8}
  allocatable: {nvidia.com/gpu: 8}
  conditions: [{type: Ready, status: "True"}]
---
"""
KILLED = """\
apiVersion: v1
kind: Pod
metadata: {name: serve, namespace: team}
spec:
  nodeName: metal-1
  containers:
    - {name: main, image: "registry.example/serve:1", resources: {limits: {nvidia.com/gpu: 1, memory: 8Gi}}}
status:
  phase: Running
  conditions: [{type: Ready, status: "True"}]
  containerStatuses:
    - name: main
      restartCount: 5
      state: {running: {}}
      lastState: {terminated: {reason: OOMKilled, exitCode: 137, finishedAt: "%s"}}
"""
REFUSED = """\
apiVersion: v1
kind: Namespace
metadata: {name: team%s}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: serve, namespace: team}
spec:
  replicas: 1
  template:
    spec:
      containers:
        - {name: main, image: "registry.example/serve:1", resources: {limits: {nvidia.com/gpu: 1}}}
status:
  conditions:
    - type: ReplicaFailure
      status: "True"
      reason: FailedCreate
      message: 'pods "serve-x" is forbidden: unable to create new content'
"""
SCALED = """\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.custom.metrics.k8s.io}
spec: {group: custom.metrics.k8s.io, version: v1beta1}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: serve, namespace: team}
spec:
  template:
    spec:
      containers:
        - {name: main, image: "registry.example/serve:1", resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: serve, namespace: team}
spec:
  maxReplicas: 4
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: serve}
  metrics: [{type: Pods, pods: {metric: {name: vllm_waiting}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: serve-0
  namespace: team
  ownerReferences: [{kind: StatefulSet, name: serve, controller: true}]
spec:
  nodeName: metal-1
  containers:
    - {name: main, image: "registry.example/serve:1", resources: {limits: {nvidia.com/gpu: 1}}}
status:
  phase: Running
  conditions: [{type: Ready, status: "%s"}]
"""
FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {pool: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: all}
spec:
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
"""
SERVED = {"custom.metrics.k8s.io": frozenset({"pods/vllm_waitin"})}


def found(text: str, provider: str = "") -> set[str]:
    """The checks that fail."""
    facts = facts_of(NODE % provider + text, metrics=SERVED)
    return {one.check.id for one in diagnose(facts, all_checks()).causes}


@pytest.mark.parametrize(
    ("ended", "is_failure"), [("2026-11-22T11:50:00Z", True), ("2026-10-22T11:50:00Z", False)]
)
def test_want_of_memory_that_was_a_month_ago(ended: str, is_failure: bool) -> None:
    assert ("host-memory-short" in found(KILLED % ended)) is is_failure


@pytest.mark.parametrize(
    ("state", "is_failure"), [("", True), (", deletionTimestamp: 2026-11-22T11:59:00Z", False)]
)
def test_pods_refused_because_their_namespace_ends(state: str, is_failure: bool) -> None:
    assert ("pods-refused" in found(REFUSED % state)) is is_failure


@pytest.mark.parametrize(("ready", "is_failure"), [("True", True), ("False", False)])
def test_metrics_of_pods_that_do_not_run_yet(ready: str, is_failure: bool) -> None:
    assert ("metric-unserved" in found(SCALED % ready)) is is_failure


@pytest.mark.parametrize(("provider", "is_failure"), [("", True), ("aws:///eu-west-1a/i-1", False)])
def test_flavors_for_which_a_cloud_may_bring_nodes(provider: str, is_failure: bool) -> None:
    assert ("flavor-matches-nothing" in found(FLAVOR, provider)) is is_failure
