"""Where two things are wrong, or one that is heard elsewhere: what is to be mended first is told first."""

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import Diagnosis, diagnose
from tests.doctor.facts_of_text import facts_of

PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"
CRASHING = "{name: main, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, restartCount: 9}"
DOWN = (
    "{type: Ready, status: Unknown, reason: NodeStatusUnknown, message: Kubelet stopped posting node status.}"
)
READY = '{type: Ready, status: "True", reason: KubeletReady}'


def a_node(
    name: str, gpus: str = "8", *, capacity: str | None = None, ready: str = READY, spec: str = "{}"
) -> str:
    return f"""
apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels: {{nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, pool: {name}}}
spec: {spec}
status:
  capacity: {{cpu: "64", memory: 512Gi, nvidia.com/gpu: "{capacity or gpus}"}}
  allocatable: {{cpu: "64", memory: 512Gi, nvidia.com/gpu: "{gpus}"}}
  conditions: [{ready}]
---"""


def a_daemon(name: str, image: str, selector: str = "{}", tolerations: str = "[]") -> str:
    return f"""
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: gpu-operator}}
spec:
  template:
    spec:
      nodeSelector: {selector}
      tolerations: {tolerations}
      containers: [{{name: main, image: "{image}"}}]
---"""


def a_daemon_pod(daemon: str, image: str, node: str, container: str = "") -> str:
    well = not container
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {daemon}-{node}
  namespace: gpu-operator
  creationTimestamp: "2026-11-22T10:00:00Z"
  ownerReferences: [{{kind: DaemonSet, name: {daemon}, controller: true}}]
spec: {{nodeName: {node}, containers: [{{name: main, image: "{image}"}}]}}
status:
  phase: Running
  containerStatuses: [{container}]
  conditions: [{{type: Ready, status: "{well}", lastTransitionTime: "2026-11-22T10:00:00Z"}}]
---"""


def a_pod(name: str, spec: str = "", node: str = "", verdict: str = "Insufficient nvidia.com/gpu") -> str:
    bound = f"nodeName: {node}" if node else ""
    placed = bool(node)
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: ml
  creationTimestamp: "2026-11-22T10:00:00Z"
  labels: {{app: server}}
  ownerReferences: [{{kind: Deployment, name: server, controller: true}}]
spec:
  {bound}
  {spec}
  containers: [{{name: main, image: "a:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
status:
  phase: {"Running" if placed else "Pending"}
  conditions:
    - {{type: PodScheduled, status: "{placed}", reason: Unschedulable, message: "{verdict}"}}
    - {{type: Ready, status: "{placed}"}}
---"""


def a_deployment(spec: str = "") -> str:
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: server, namespace: ml}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: server}}}}
  template:
    metadata: {{labels: {{app: server}}}}
    spec:
      {spec}
      containers:
        - {{name: main, image: "a:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}
---"""


def an_autoscaler_at_its_end(target: str = "server") -> str:
    return f"""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: server, namespace: ml}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {target}}}
  maxReplicas: 2
  metrics:
    - {{type: Resource, resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 50}}}}}}
status:
  currentReplicas: 2
  desiredReplicas: 2
  conditions: [{{type: ScalingLimited, status: "True", reason: TooManyReplicas}}]
---"""


def broken(diagnosis: Diagnosis) -> list[tuple[str, set[str]]]:
    """The causes of what is broken, each with what follows from it."""
    return [
        (one.check.id, {below.check.id for below in one.follows})
        for one in diagnosis.causes
        if one.check.grade.value == "broken"
    ]


def found(*parts: str) -> list[tuple[str, set[str]]]:
    return broken(diagnose(facts_of("".join(parts).removesuffix("---")), all_checks()))


def ids(*parts: str) -> list[str]:
    return [name for name, _ in found(*parts)]


def test_a_dead_node_is_the_cause_of_its_dead_plugin_and_of_pods_that_wait() -> None:
    told = found(
        a_node("n1", "0", capacity="8", ready=DOWN),
        a_daemon("plugin", PLUGIN),
        a_daemon_pod("plugin", PLUGIN, "n1", CRASHING),
        a_deployment(),
        a_pod("server-1"),
    )
    assert told[0][0] == "nodes-unready"
    assert len(told) == 1


def test_a_crashing_driver_is_the_cause_of_everything_above_it() -> None:
    driver = "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04"
    told = found(
        a_node("n1", "0"),
        a_daemon("driver", driver),
        a_daemon_pod("driver", driver, "n1", CRASHING),
        a_daemon("plugin", PLUGIN),
        a_daemon_pod("plugin", PLUGIN, "n1", "{name: main, state: {waiting: {reason: PodInitializing}}}"),
        a_deployment(),
        a_pod("server-1"),
        an_autoscaler_at_its_end(),
    )
    assert told[0][0] == "driver-failing"
    assert len(told) == 1


def test_a_taint_that_the_plugin_does_not_tolerate_is_told_before_the_pods() -> None:
    tainted = "{taints: [{key: team, value: ml, effect: NoExecute}]}"
    told = found(
        a_node("n1", "0", capacity="8", spec=tainted),
        a_daemon("plugin", PLUGIN),
        a_deployment("tolerations: [{key: team, operator: Exists}]"),
        a_pod("server-1", "tolerations: [{key: team, operator: Exists}]"),
    )
    assert told[0][0] == "plugin-missing"
    assert len(told) == 1


def test_a_crashing_plugin_is_the_cause_of_lost_gpus() -> None:
    told = found(
        a_node("n1", "0", capacity="8"),
        a_daemon("plugin", PLUGIN),
        a_daemon_pod("plugin", PLUGIN, "n1", CRASHING),
        a_deployment(),
        a_pod("server-1"),
    )
    assert told[0][0] == "plugin-failing"
    assert "capacity-lost" in told[0][1]
    assert len(told) == 1


def test_a_typo_is_told_beside_a_dead_node_that_it_has_nothing_to_do_with() -> None:
    told = found(
        a_node("n1"),
        a_node("n2", ready=DOWN),
        a_deployment("nodeSelector: {nvidia.com/gpu.product: H100}"),
        a_pod("server-1", "nodeSelector: {nvidia.com/gpu.product: H100}"),
    )
    assert [name for name, _ in told] == ["nodes-unready", "selector-matches-nothing"]


def test_two_nodes_with_two_faults_are_two_causes() -> None:
    told = ids(
        a_node("n1", ready=DOWN),
        a_node("n2", "0", capacity="8"),
        a_daemon("plugin", PLUGIN),
        a_daemon_pod("plugin", PLUGIN, "n2", CRASHING),
    )
    assert told == ["nodes-unready", "plugin-failing"]


def test_cordoned_nodes_are_told_to_those_who_wait_for_them() -> None:
    told = ids(a_node("n1", spec="{unschedulable: true}"), a_deployment(), a_pod("server-1"))
    assert told[0] == "nodes-cordoned"
    assert len(told) == 1


def test_a_full_disk_is_the_cause_of_a_plugin_that_was_put_out() -> None:
    pressed = f'{READY}, {{type: DiskPressure, status: "True", reason: KubeletHasDiskPressure}}'
    told = found(
        a_node("n1", "0", capacity="8", ready=pressed),
        a_daemon("plugin", PLUGIN),
        a_deployment(),
        a_pod("server-1"),
    )
    assert told[0][0] == "nodes-pressed"
    assert len(told) == 1


def test_a_missing_runtime_class_is_the_cause_of_a_stack_without_pods() -> None:
    daemon = a_daemon("plugin", PLUGIN).replace(
        "nodeSelector", "runtimeClassName: nvidia\n      nodeSelector"
    )
    told = found(a_node("n1", "0"), daemon, a_deployment(), a_pod("server-1"))
    assert told[0][0] == "stack-runtime-class-missing"
    assert len(told) == 1


def test_a_quota_is_told_before_the_autoscaler_that_asks_for_more() -> None:
    refusal = (
        'pods \\"server-x\\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, '
        "used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=1"
    )
    replica_set = f"""
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: server-5d
  namespace: ml
  ownerReferences: [{{kind: Deployment, name: server, controller: true}}]
spec:
  replicas: 2
  template:
    spec:
      containers: [{{name: main, image: "a:1", resources: {{limits: {{nvidia.com/gpu: "1"}}}}}}]
status:
  replicas: 1
  conditions: [{{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "{refusal}"}}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: gpus, namespace: ml}}
status:
  hard: {{requests.nvidia.com/gpu: "1"}}
  used: {{requests.nvidia.com/gpu: "1"}}
---"""
    told = found(
        a_node("n1"), a_deployment(), replica_set, a_pod("server-1", node="n1"), an_autoscaler_at_its_end()
    )
    assert told[0][0] == "quota-full"
    assert len(told) == 1


def test_a_name_that_is_written_wrong_follows_from_no_absent_scheduler() -> None:
    """Whoever starts the scheduler has not made the PriorityClass that is named."""
    named = "schedulerName: gpufleet, priorityClassName: hihg".replace(", ", "\n      ")
    told = found(a_node("n1"), a_deployment(named), a_pod("server-1", named.replace("      ", "  ")))
    assert [name for name, _ in told] == ["scheduler-absent", "priority-class-missing"]


def test_logs_are_asked_for_only_where_something_has_run() -> None:
    pulling = "{name: main, state: {waiting: {reason: ImagePullBackOff, message: not found}}}"
    for container, has_logs in ((CRASHING, True), (pulling, False)):
        parts = a_node("n1"), a_daemon("plugin", PLUGIN), a_daemon_pod("plugin", PLUGIN, "n1", container)
        diagnosis = diagnose(facts_of("".join(parts).removesuffix("---")), all_checks())
        commands = [mend.command for mend in diagnosis.causes[0].failure.mends]
        logs = "kubectl logs -n gpu-operator plugin-n1 -c main --previous"
        assert (logs in commands) is has_logs
        assert "kubectl describe pod -n gpu-operator plugin-n1" in commands


def test_what_is_out_of_reach_of_gpu_nodes_is_no_cause() -> None:
    """A node without GPUs is down and an unrelated DaemonSet crashes: a GPU pod's typo stays the cause."""
    other = a_node("c1", ready=DOWN).replace("nvidia.com/gpu", "example.com/x")
    told = ids(
        a_node("n1"),
        other,
        a_daemon("logs", "fluent/fluent-bit:4.1"),
        a_daemon_pod("logs", "fluent/fluent-bit:4.1", "n1", CRASHING),
        a_deployment("nodeSelector: {pool: n9}"),
        a_pod("server-1", "nodeSelector: {pool: n9}"),
    )
    assert told == ["selector-matches-nothing"]
