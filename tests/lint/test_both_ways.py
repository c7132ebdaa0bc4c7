"""Every rule is seen to find and to let pass, with examples beside those of its page."""

import pytest

from gpufleet.agent.exporter.counters import DEFAULT
from gpufleet.lint.objects.dcgm_fields import SERVED
from gpufleet.lint.rules import all_rules, page
from tests.lint import test_cluster_rules, test_model_rules, test_rules
from tests.lint.linting import findings_of, pod, report_of
from tests.lint.test_cluster_rules import A100, deployment, node

IDS = frozenset(f"GPU{number:03}" for number in range(1, 62))
NEEDS_METRICS = frozenset({"GPU049"})
"""They judge what was measured, and have their edges in files of their own."""

TAINTED = node(A100).replace("---", "spec: {taints: [{key: nvidia.com/gpu, effect: NoSchedule}]}")
T4 = "nvidia.com/gpu.product: Tesla-T4"
MIG_SINGLE = ("nvidia.com/mig.strategy: single", "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
HAND_WRITTEN = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n"
SERVER = deployment("{}") + "---\n"
SCALED = (
    "apiVersion: %s\nkind: %s\nmetadata: {name: s}\nspec: {scaleTargetRef: {kind: Deployment, name: a}, %s}\n"
)
HPA = ("autoscaling/v2", "HorizontalPodAutoscaler")
KEDA = ("keda.sh/v1alpha1", "ScaledObject")
RESOURCE = "metrics: [{type: Resource, resource: {name: %s}}]"
WAITING = "metrics: [{type: Pods, pods: {metric: {name: vllm_num_requests_waiting}}}]"
BUSY = "metrics: [{type: Pods, pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}}}]"
ZERO = "minReplicaCount: 0, %s, triggers: [{type: prometheus, metadata: {query: up%s}}]"
JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: {%s}}\n"
    "spec: {%s, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
)
BOUNDS = "activeDeadlineSeconds: 1, ttlSecondsAfterFinished: 1, backoffLimit: 1"
INDEXED = f"{BOUNDS}, completionMode: Indexed, parallelism: 2"
MEETING = "{subdomain: a, containers"
GPU_POD = "{containers: [{name: c, image: 'x:1', resources: {limits: {nvidia.com/gpu: 1}}}]}"
MISSPELT = f"apiVersion: %s\nkind: %s\nmetadata: {{name: m}}\nspec: {{template: {{spec: {GPU_POD}}}}}\n"
ASKING = "apiVersion: example.org/v1\nkind: Training\nmetadata: {name: t}\nspec: {%s}\n"
BY_SHAPE = f"anywhere: [{{podTemplate: {{spec: {GPU_POD}}}}}]"
CLAIM = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {\n"
    '  requests: [{name: gpu, exactly: {selectors: [{cel: {expression: "%s"}}]}}],\n'
    "  constraints: [{matchAttribute: %s, requests: [%s]}]}}\n"
)
FLAT_CLAIM = (
    "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {\n"
    '  requests: [{name: gpu, selectors: [{cel: {expression: "%s"}}]}]}}\n'
)
DEVICE_CLASS = (
    "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n"
    'spec: {selectors: [{cel: {expression: "%s"}}]}\n'
)
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {%s}}\n"
RANGE = (
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\n"
    "spec: {limits: [{type: Container, default: {%s}}]}\n"
)
BOARD = '{"title": "a", "panels": [{"panels": [{"title": "p", "targets": [{"expr": "%s"}]}]}]}'
GRAFANA_OBJECT = (
    "apiVersion: grafana.integreatly.org/v1beta1\nkind: GrafanaDashboard\nmetadata: {name: a}\n"
    'spec:\n  json: \'{"panels": [{"title": "p", "targets": [{"expr": "%s"}]}]}\'\n'
)
RULE_FILE = "groups: [{name: a, rules: [{%s}]}]\n"
RULES = (
    "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: r}\n"
    "spec: {groups: [{name: g, rules: [{%s}]}]}\n"
)
BOARD = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  b.json: |\n"
    '    {"panels": [{"type": "row", "panels": [{"title": "t", "targets": [{"expr": "%s"}]}]}]}\n'
)
ENDING = "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}, %s}]}"
REPLAYS = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
SHARED = "nvidia.com/gpu.shared: 1"
SECOND = pod().replace(
    "  priorityClassName: work", "    - {name: second, resources: {limits: {nvidia.com/gpu: 1}}}"
)
VLLM = "image: vllm/vllm-openai:v0.19.0\nargs: [%s]"
OFF = "image: a:1\nenv: [{name: NVIDIA_DISABLE_REQUIRE, value: '1'}]"
EDGES = [
    ("GPU003", pod("image: nvidia/cuda:12.3.2-base", limits=""), "", True),
    ("GPU006", pod("securityContext: {privileged: true}"), "", True),
    ("GPU006", pod("securityContext: {privileged: false}"), "", False),
    ("GPU008", pod(spec="hostPID: true"), "", True),
    ("GPU010", pod(spec="runtimeClassName: nvidai"), HAND_WRITTEN, True),
    ("GPU010", pod(spec="runtimeClassName: nvidia"), HAND_WRITTEN, False),
    # Volta is among the architectures that CUDA 13 dropped (NVIDIA's release notes of 13.0).
    (
        "GPU014",
        pod("image: nvidia/cuda:13.0.0-base-ubuntu24.04"),
        node("nvidia.com/gpu.product: Tesla-V100-SXM2-16GB"),
        True,
    ),
    # Only containers that run CUDA are checked by its runtime.
    ("GPU013", pod(OFF, limits="amd.com/gpu: 1"), node(A100), False),
    ("GPU016", pod(), TAINTED, True),
    ("GPU016", pod(spec="tolerations: [{key: nvidia.com/gpu, operator: Exists}]"), TAINTED, False),
    ("GPU018", pod(), node(A100) + node(T4, name="m"), True),
    ("GPU018", pod(), node(A100) + node(A100, name="m"), False),
    ("GPU019", pod(spec="nodeSelector: {gpu: 'yes'}"), node("gpu: 'no'"), True),
    ("GPU019", pod(spec="nodeSelector: {gpu: 'yes'}"), node("gpu: 'yes'"), False),
    ("GPU023", (JOB % ("", INDEXED)).replace("{containers", MEETING), "", True),
    ("GPU023", JOB % ("kueue.x-k8s.io/queue-name: a", INDEXED), "", False),
    ("GPU027", SERVER + SCALED % (*HPA, RESOURCE % "cpu"), "", True),
    ("GPU027", SERVER + SCALED % (*HPA, WAITING), "", False),
    ("GPU028", SERVER + SCALED % (*HPA, BUSY), "", True),
    ("GPU028", SERVER + SCALED % (*HPA, WAITING), "", False),
    ("GPU029", SERVER + SCALED % (*HPA, RESOURCE % "nvidia.com/gpu"), "", True),
    ("GPU029", SERVER + SCALED % (*HPA, RESOURCE % "memory"), "", False),
    ("GPU030", SERVER + SCALED % (*KEDA, ZERO % ("cooldownPeriod: 900", "")), "", True),
    (
        "GPU030",
        SERVER + SCALED % (*KEDA, ZERO % ("cooldownPeriod: 900", ", activationThreshold: '1'")),
        "",
        False,
    ),
    ("GPU036", pod().replace("priorityClassName: work", "restartPolicy: Never"), "", True),
    ("GPU037", JOB % ("", "parallelism: 1"), "", True),
    ("GPU037", JOB % ("", BOUNDS), "", False),
    ("GPU041", pod(VLLM % "--model=/m", limits=SHARED), "", True),
    ("GPU041", pod(VLLM % "--gpu-memory-utilization=0.4", limits=SHARED), "", False),
    ("GPU043", pod(), node(A100) + node(*MIG_SINGLE, name="m"), True),
    ("GPU043", pod(), node(*MIG_SINGLE) + node(*MIG_SINGLE, name="m"), False),
    ("GPU044", pod(limits="nvidia.com/mig-1g.5gb: 1\nnvidia.com/mig-2g.10gb: 1"), "", True),
    ("GPU044", pod(limits="nvidia.com/mig-2g.10gb: 1"), "", False),
    ("GPU045", SECOND, "", True),
    ("GPU045", pod(spec="initContainers: [{name: i}]"), "", False),
    ("GPU051", QUOTA % "limits.nvidia.com/gpu: 8", "", True),
    ("GPU051", QUOTA % "requests.nvidia.com/gpu: 8", "", False),
    ("GPU051", RANGE % "nvidia.com/gpu: 1", "", True),
    ("GPU051", RANGE % "cpu: 1", "", False),
    ("GPU051", RANGE % "nvidia.com/gpu: '0'}, max: {nvidia.com/gpu: 2", "", False),
    ("GPU051", RANGE % "cpu: 1}, max: {nvidia.com/gpu: 2", "", True),
    ("GPU051", RANGE % "nvidia.com/gpu: 2}, max: {nvidia.com/gpu: 2", "", True),
    ("GPU051", (RANGE % "cpu: 1}, max: {nvidia.com/gpu: 2").replace("Container", "Pod"), "", False),
    ("GPU051", QUOTA % "nvidia.com/gpu: 8", "", True),
    ("GPU051", QUOTA % "count/jobs.batch: 8", "", False),
    ("GPU051", QUOTA % "requests.nvidia.com/a100: 8", "", False),
    ("GPU051", QUOTA % "requests.nvidia.com/gpus: 8", "", True),
    ("GPU053", pod(limits="nvidia.com/gpus: 1"), "", True),
    ("GPU053", pod(limits="nvidia.com/GPU: 1"), "", True),
    ("GPU053", pod(limits="gpu: 1"), "", True),
    ("GPU053", pod(limits="amd.com/gpus: 1"), "", True),
    ("GPU053", pod(limits="nvidia.com/hostdev: 1"), "", False),
    ("GPU053", pod(limits="example.com/gpu: 1"), "", False),
    ("GPU053", pod(limits="nvidia.com/gpu.shared: 1"), "", False),
    ("GPU053", pod(limits="gpu.intel.com/i915: 1"), "", False),
    ("GPU054", RULES % "alert: a, expr: 'avg(dcgm_gpu_utilization) < 10'", "", True),
    (
        "GPU054",
        RULES % "alert: a, expr: 'dcgm_fb_used_bytes{gpu=\"0\"} / dcgm_fb_total_bytes > 0.9'",
        "",
        True,
    ),
    *(
        ("GPU054", RULES % f"alert: a, expr: 'avg({name}) < 10'", "", True)
        for name in (
            "DCGM_FI_DEV_MEM_USED",
            "DCGM_FI_DEV_MEMORY_TOTAL",
            "DCGM_FI_DEV_MEM_UTIL",
            "DCGM_FI_DEV_GPU_UTILIZATION",
            "DCGM_FI_DEV_FB_USED_BYTES",
            "DCGM_FI_DEV_POWER_DRAW",
            "DCGM_FI_DEV_TEMP",
        )
    ),
    ("GPU054", BOARD % "avg(dcgm_gpu_utilization)", "", True),
    ("GPU054", BOARD % "avg(DCGM_FI_DEV_GPU_UTIL)", "", False),
    ("GPU054", BOARD.replace("panels", "parts") % "avg(dcgm_gpu_utilization)", "", False),
    ("GPU054", GRAFANA_OBJECT % "avg(dcgm_gpu_utilization)", "", True),
    ("GPU054", RULES % "record: DCGM_FI_DEV_MEM_USED, expr: 'DCGM_FI_DEV_MEM_USED'", "", False),
    ("GPU054", RULES % "alert: a, expr: 'DCGM_FI_DEV_MEM_CLOCK + DCGM_FI_DEV_MEMORY_TEMP'", "", False),
    ("GPU054", RULES % "alert: a, expr: 'x:DCGM_FI_DEV_MEM_USED:avg < 10'", "", False),
    ("GPU054", RULES % "alert: a, expr: 'DCGM_FI_DEV_GPU_UTIL < 10'", "", False),
    ("GPU054", RULES % "record: dcgm_fb_total_bytes, expr: 'DCGM_FI_DEV_FB_USED'", "", False),
    ("GPU054", RULES % "alert: a, expr: 'up{job=\"dcgm_exporter\"} < 1'", "", False),
    ("GPU054", RULES % "alert: a, expr: 'gpu:dcgm_power:avg > 1'", "", False),
    ("GPU054", BOARD % "avg(dcgm_gpu_utilization)", "", True),
    ("GPU054", BOARD % "avg(DCGM_FI_DEV_GPU_UTIL)", "", False),
    ("GPU054", (BOARD % "dcgm_gpu_utilization").replace(".json", ".txt"), "", False),
    ("GPU055", MISSPELT % ("apps/v1", "Deploment"), "", True),
    ("GPU055", MISSPELT % ("apps/v1", "deployment"), "", True),
    ("GPU055", MISSPELT % ("kubeflow.org/v1", "PytorchJobs"), "", True),
    ("GPU055", MISSPELT % ("app/v1", "Deployment"), "", True),
    ("GPU055", MISSPELT % ("v1", "Deployment"), "", True),
    ("GPU055", MISSPELT % ("apps.example.org/v1", "Deployment"), "", False),
    ("GPU055", MISSPELT % ("apps/v1", "Deployment"), "", False),
    ("GPU055", MISSPELT % ("example.org/v1", "Deploment"), "", False),
    ("GPU055", MISSPELT % ("kubeflow.org/v1", "Profile"), "", False),
    ("GPU056", ASKING % "resources: {limits: {nvidia.com/gpu: 1}}", "", True),
    ("GPU056", ASKING % "trainer: {resourcesPerNode: {requests: {amd.com/gpu: 1}}}", "", True),
    ("GPU056", ASKING % "executor: {gpu: {name: nvidia.com/gpu, quantity: 2}}", "", True),
    ("GPU056", ASKING % "resources: {limits: {cpu: 1}}", "", False),
    ("GPU056", ASKING % "limits: {nvidia.com/gpu: 16}", "", False),
    ("GPU056", ASKING % BY_SHAPE, "", False),
    ("GPU057", CLAIM % ("device.driver == 1", "a/b", "gpu"), "", True),
    ("GPU057", CLAIM % ("device.driver ==", "a/b", "gpu"), "", True),
    ("GPU057", CLAIM % ("device.drivr == 'a'", "a/b", "gpu"), "", True),
    ("GPU057", CLAIM % ("device.driver", "a/b", "gpu"), "", True),
    ("GPU057", CLAIM % ("device.driver == 'a'", "b", "gpu"), "", True),
    ("GPU057", CLAIM % ("device.driver == 'a'", "a/b", "gqu"), "", True),
    ("GPU057", CLAIM % ("device.driver == 'a'", "a/b", "gpu"), "", False),
    # Lists of values are behind a gate, which a cluster may have open.
    ("GPU057", CLAIM % ("device.attributes['a'].b.includes('c')", "a/b", "gpu"), "", False),
    ("GPU057", FLAT_CLAIM % "device.driver == 1", "", True),
    ("GPU057", DEVICE_CLASS % "device.driver = 'a'", "", True),
    ("GPU057", DEVICE_CLASS % "device.driver == 'a'", "", False),
    ("GPU058", RULES % f"alert: a, expr: '{REPLAYS} > 100'", "", True),
    ("GPU058", RULE_FILE % f"alert: a, expr: '{REPLAYS} > 100'", "", True),
    ("GPU058", RULE_FILE % f"alert: a, expr: 'increase({REPLAYS}[15m]) > 100'", "", False),
    ("GPU058", RULES % f"alert: a, expr: 'sum by (gpu) ({REPLAYS}{{gpu=\"0\"}}) > 100'", "", True),
    ("GPU058", RULES % "alert: a, expr: 'vllm:num_preemptions_total > 10'", "", True),
    ("GPU058", RULES % f"alert: a, expr: 'increase({REPLAYS}[15m]) > 100'", "", False),
    ("GPU058", RULES % f"alert: a, expr: 'increase({REPLAYS}{{gpu=\"0\"}}[15m]) > 100'", "", False),
    ("GPU058", RULES % f"alert: a, expr: '{REPLAYS} - {REPLAYS} offset 15m > 100'", "", False),
    ("GPU058", RULES % f"alert: a, expr: 'max_over_time(sum({REPLAYS})[1h:5m]) > 1'", "", False),
    ("GPU058", RULES % f"record: a, expr: '{REPLAYS} > 100'", "", False),
    ("GPU058", RULES % f"alert: a, expr: 'absent({REPLAYS})'", "", False),
    ("GPU058", RULES % "alert: a, expr: 'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0'", "", False),
    ("GPU058", RULES % "alert: a, expr: 'DCGM_FI_DEV_GPU_UTIL < 5'", "", False),
    ("GPU059", RULES % "alert: a, expr: 'DCGM_FI_DEV_GPU_UTIL * kube_pod_labels < 5'", "", True),
    ("GPU059", RULES % "alert: a, expr: 'kube_pod_info{a=\"b\"} unless DCGM_FI_DEV_GPU_UTIL'", "", True),
    ("GPU059", BOARD % "DCGM_FI_DEV_FB_USED and kube_pod_info", "", True),
    (
        "GPU059",
        RULES % "alert: a, expr: 'DCGM_FI_DEV_GPU_UTIL * on (pod) group_left kube_pod_labels'",
        "",
        False,
    ),
    (
        "GPU059",
        RULES % "alert: a, expr: 'sum by (pod) (DCGM_FI_DEV_GPU_UTIL) * sum by (pod) (kube_pod_info)'",
        "",
        False,
    ),
    ("GPU059", RULES % "alert: a, expr: 'DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE > 1'", "", False),
    ("GPU059", RULES % "alert: a, expr: 'kube_pod_info and kube_pod_labels'", "", False),
    ("GPU060", test_rules.deployment(ENDING % "command: [nvidia-smi]"), "", True),
    ("GPU060", test_rules.deployment(ENDING % "command: [sh, -c, nvidia-smi -L]"), "", True),
    (
        "GPU060",
        test_rules.deployment(ENDING % "image: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"),
        "",
        True,
    ),
    ("GPU060", pod("command: [nvidia-smi]"), "", True),
    ("GPU060", pod("image: registry.k8s.io/cuda-vector-add:v0.1"), "", True),
    ("GPU060", test_rules.deployment(ENDING % "command: [nvidia-smi, -l, '5']"), "", False),
    ("GPU060", test_rules.deployment(ENDING % "command: [sh, -c, nvidia-smi; sleep infinity]"), "", False),
    (
        "GPU060",
        test_rules.deployment(ENDING % "image: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime, tty: true"),
        "",
        False,
    ),
    ("GPU060", test_rules.deployment(ENDING % "image: server:1"), "", False),
    ("GPU060", pod("command: [nvidia-smi]", "restartPolicy: Never"), "", False),
    ("GPU060", pod("image: pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"), "", False),
    *(
        ("GPU061", pod(f"image: {image}"), "", True)
        for image in (
            "nvidia/cuda:10.2-base",
            "docker.io/nvidia/cuda:9.0-devel-ubuntu16.04",
            "nvidia/cuda:11.8-base-ubuntu20.04",
            "nvidia/cuda:11.2.1-base-ubuntu20.04",
            "nvidia/cuda:11.8.1-base-ubuntu22.04",
            "nvidia/cuda:12.4.1-cudnn-devel",
            "nvcr.io/nvidia/cuda:12.7.0-base-ubuntu24.04",
            "nvidia/cuda:12",
            "vllm/vllm-openai:0.6.6",
            "vllm/vllm-openai:v0.9",
            "vllm/vllm-openai:v0.3.1",
            "lmsysorg/sglang:0.4.6.post1-cu124",
            "nvcr.io/nvidia/pytorch:24.10",
            "nvcr.io/nvidia/tritonserver:25.09",
            "ghcr.io/huggingface/text-generation-inference:v2.0.4",
            "ollama/ollama:v0.12.3",
        )
    ),
    *(
        ("GPU061", pod(f"image: {image}"), "", False)
        for image in (
            "nvidia/cuda:11.0.3-base-ubuntu20.04",
            "nvidia/cuda:11.8.0-cudnn8-devel-ubi8",
            "nvidia/cuda:12.4.1-base-ubuntu22.04",
            "nvidia/cuda:13.0.2-cudnn-runtime-ubuntu24.04",
            "nvidia/cuda:10.2-base@sha256:0123",
            "<registry>/nvidia/cuda:10.2-base",
            "mirror.example/nvidia/cuda:10.2-base",
            "nvidia/cuda",
            "nvidia/cuda:latest",
            "nvidia/cuda-of-a-team:10.2-base",
            "vllm/vllm-openai:v0.19.0",
            "vllm/vllm-openai:latest",
            "vllm/vllm-openai:nightly",
            "lmsysorg/sglang:v0.5.4",
            "nvcr.io/nvidia/pytorch:24.10-py3",
            "ghcr.io/huggingface/text-generation-inference:3.3.4",
            "ollama/ollama:0.12.3",
            "ollama/ollama",
        )
    ),
    ("GPU052", pod("env: [{name: HF_TOKEN, value: hf_secret}]"), "", True),
]


@pytest.mark.parametrize(
    ("rule", "text", "cluster", "is_found"), EDGES, ids=[f"{c[0]}-{n}" for n, c in enumerate(EDGES)]
)
def test_an_edge(rule: str, text: str, cluster: str, is_found: bool) -> None:
    assert bool(findings_of(rule, text, cluster=cluster)) == is_found
    report = report_of(text, cluster=cluster)
    assert report.problems == ()
    assert rule not in {one.rule.id for one in report.unjudged}


def seen(*, as_found: bool) -> frozenset[str]:
    """The rules that some edge shows to find, or to let pass."""
    counted = {rule for rule, _, count in test_rules.CASES if (count > 0) == as_found}
    word = "found" if as_found else "passed"
    judged = {
        rule
        for table in (test_cluster_rules.CASES, test_model_rules.CASES)
        for rule, _, _, expected in table
        if expected == word
    }
    return frozenset({*counted, *judged, *(rule for rule, _, _, found in EDGES if found == as_found)})


def test_every_rule_is_there_with_its_page() -> None:
    ids = [rule.id for rule in all_rules()]
    assert ids == sorted(set(ids))
    assert set(ids) == IDS
    assert all(page(one) for one in ids)


@pytest.mark.parametrize("as_found", [True, False], ids=["found", "passed"])
def test_every_rule_has_an_edge_beside_its_page(as_found: bool) -> None:
    missing = {rule.id for rule in all_rules()} - seen(as_found=as_found) - NEEDS_METRICS
    assert missing == set()


def test_no_edge_is_of_a_rule_that_is_not_there() -> None:
    assert seen(as_found=True) | seen(as_found=False) <= {rule.id for rule in all_rules()}


@pytest.mark.parametrize("name", ["DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_NEWER"])
def test_a_field_that_a_file_of_counters_may_ask_for_is_not_judged(name: str) -> None:
    report = report_of(RULES % f"alert: a, expr: '{name} < 0.1'")
    assert "GPU054" in {one.rule.id for one in report.unjudged}
    assert "GPU054" not in {one.rule.id for one in report.findings}


def test_the_fields_that_are_served_are_those_of_our_exporter() -> None:
    assert {one.name for one in DEFAULT if one.name.startswith("DCGM_FI_")} == SERVED


@pytest.mark.parametrize(
    "tag",
    ["12.9.2-base-ubuntu24.04", "12.10.0-base-ubuntu24.04", "13.1.0-base-ubuntu24.04", "14.0.0-base-ubi9"],
)
def test_a_tag_that_is_newer_than_the_table_of_tags_is_not_judged(tag: str) -> None:
    report = report_of(pod(f"image: nvidia/cuda:{tag}"))
    assert "GPU061" in {one.rule.id for one in report.unjudged}
    assert "GPU061" not in {one.rule.id for one in report.findings}
