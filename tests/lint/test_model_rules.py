"""Edges of the rules that read a server's command line, and of those about pools and settings."""

import pytest

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.vllm_command import served
from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText
from tests.lint.linting import findings_of, pod, report_of

GKE = "cloud.google.com/gke-accelerator"
A100 = "NVIDIA-A100-SXM4-80GB"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {nvidia.com/gpu.product: %s}}\n"
CARDS = NODE + "status: {allocatable: {nvidia.com/gpu: '8'}}\n"
LARGE, SMALL = "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"


def server(*words: str, count: int = 1, tag: str = "v0.19.0") -> str:
    return pod(
        f"image: vllm/vllm-openai:{tag}\nargs: [{', '.join(words)}]", limits=f"nvidia.com/gpu: {count}"
    )


def on(label: str, card: str, *words: str) -> str:
    """A server whose pod chooses its nodes by a label for a card."""
    return server(*words).replace("spec:\n", f"spec:\n  nodeSelector: {{{label}: {card}}}\n", 1)


SGLANG, TGI = "lmsysorg/sglang:v0.5.4", "ghcr.io/huggingface/text-generation-inference:3.3.4"
TRTLLM = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
TRITON = "nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3"


def other(image: str, *words: str, count: int = 1, more: str = "") -> str:
    """A server that is not vLLM."""
    lines = f"image: {image}\nargs: [{', '.join(words)}]\n{more}"
    return pod(lines, limits=f"nvidia.com/gpu: {count}")


def triton(model_json: str, mount: str = "/models/llm/1", option: str = "--model-repository=/models") -> str:
    """Triton with a file of its vLLM backend in a ConfigMap."""
    config = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n"
        f"  model.json: '{model_json}'\n  config.pbtxt: 'backend: \"vllm\"'\n---\n"
    )
    more = f"volumeMounts: [{{name: m, mountPath: {mount}}}]"
    server = other("nvcr.io/nvidia/tritonserver:25.06-vllm-python-py3", "tritonserver", option, more=more)
    volumes = "  volumes: [{name: m, configMap: {name: m}}]\n"
    return config + server.replace("spec:\n", f"spec:\n{volumes}", 1)


def pool(*lines: str) -> str:
    head = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n"
    return head + "".join(f"  {line}\n" for line in lines)


def requires(key: str, operator: str, *values: str) -> str:
    needs = f"{{key: {key}, operator: {operator}, values: [{', '.join(values)}]}}"
    return f"template: {{spec: {{requirements: [{needs}], taints: [{{key: a, effect: NoSchedule}}]}}}}"


POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: %s\n"
OFF = "env: [{name: CONTAINERD_SET_AS_DEFAULT, value: 'false'}]"
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  any: |\n    sharing: {%s}\n"
TEN = "resources: [{name: nvidia.com/gpu, replicas: %s}]"
INSTANCES = "resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]"
JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {metadata: %s,"
    " spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
)
P5 = requires("karpenter.k8s.aws/instance-category", "In", "p")
TWO_K = "--max-model-len=2048"
CASES = [
    ("GPU048", server(f"--model={LARGE}"), CARDS % A100, "found"),
    ("GPU048", server(f"--model={LARGE}"), "", "unjudged"),
    ("GPU048", server(f"--model={LARGE}"), CARDS % "Tesla-Unknown", "unjudged"),
    ("GPU048", server(f"--model={LARGE}"), CARDS % f"{A100}-MIG-1g.10gb", "unjudged"),
    ("GPU048", server("--model=own/model"), CARDS % A100, "unjudged"),
    ("GPU048", server("--model=/models/llama-3.1-8b"), CARDS % A100, "unjudged"),
    ("GPU048", server(LARGE, "--cpu-offload-gb", "'80'"), CARDS % A100, "unjudged"),
    ("GPU048", server(SMALL, "--max-model-len", "8k"), CARDS % A100, "passed"),
    ("GPU048", server(SMALL, "--max-model-len", "8k"), CARDS % "Tesla-T4", "found"),
    ("GPU048", server(LARGE, "-tp", "'4'", "--max-model-len", "8k", count=4), CARDS % A100, "passed"),
    ("GPU048", server("nvidia/Llama-3.1-405B-Instruct-FP4"), CARDS % A100, "found"),
    ("GPU048", server("RedHatAI/Qwen3-32B-FP8", "--dtype=bfloat16", TWO_K), CARDS % A100, "passed"),
    ("GPU048", server("nvidia/Qwen3-32B-NVFP4", TWO_K), CARDS % "NVIDIA-L4", "unjudged"),
    ("GPU048", server("openai/gpt-oss-20b", "--dtype=bfloat16", TWO_K), CARDS % A100, "passed"),
    ("GPU048", pod("image: own/thing:1\nargs: [--model, x]"), CARDS % A100, "passed"),
    ("GPU048", on(GKE, "nvidia-tesla-t4", SMALL), "", "found"),
    ("GPU048", other(TRTLLM, "trtllm-serve", LARGE), CARDS % A100, "found"),
    ("GPU048", other(TRTLLM, "trtllm-serve", "serve", LARGE), CARDS % A100, "found"),
    ("GPU048", other(TRTLLM, "trtllm-serve", SMALL), CARDS % A100, "unjudged"),
    ("GPU048", other(TRTLLM, "trtllm-serve", LARGE, "--tp_size", "'4'", count=4), CARDS % A100, "unjudged"),
    ("GPU048", other(TRTLLM, "trtllm-serve", LARGE, "--config", "f.yaml"), CARDS % A100, "unjudged"),
    ("GPU048", on(GKE, "nvidia-tesla-a100", LARGE), "", "found"),
    ("GPU048", on(GKE, "nvidia-h200-141gb", SMALL, "--max-model-len", "8k"), "", "passed"),
    ("GPU048", on("gpu.nvidia.com/class", "A100_NVLINK_80GB", LARGE), "", "found"),
    ("GPU048", on("karpenter.k8s.aws/instance-gpu-name", "l4", LARGE), "", "found"),
    ("GPU048", on("karpenter.k8s.aws/instance-gpu-name", "a100", SMALL), "", "unjudged"),
    ("GPU048", on("k8s.amazonaws.com/accelerator", "our-own-name", SMALL), "", "unjudged"),
    ("GPU048", server(LARGE), CARDS.replace("nvidia.com/gpu.product", GKE) % "nvidia-l4", "found"),
    ("GPU048", other(SGLANG, "--model-path", LARGE), CARDS % A100, "found"),
    ("GPU048", other(SGLANG, f"--model-path={LARGE}", "--tp", "'2'", count=2), CARDS % A100, "unjudged"),
    ("GPU048", other(SGLANG, "--model-path", LARGE, "--quantization", "fp8"), CARDS % A100, "unjudged"),
    ("GPU048", other(SGLANG, "--model-path", LARGE, "--cpu-offload-gb", "'80'"), CARDS % A100, "unjudged"),
    (
        "GPU048",
        other("own:1", "python3", "-m", "sglang.launch_server", f"--model={LARGE}"),
        CARDS % A100,
        "found",
    ),
    ("GPU048", other(TGI, f"--model-id={LARGE}"), CARDS % A100, "found"),
    ("GPU048", other(TGI, "--model-id", LARGE, count=4), CARDS % A100, "unjudged"),
    ("GPU048", other(TGI, "--model-id", LARGE, "--num-shard", "'1'", count=4), CARDS % A100, "found"),
    ("GPU048", other(TGI, more=f"env: [{{name: MODEL_ID, value: {LARGE}}}]"), CARDS % A100, "found"),
    ("GPU048", other(TGI, "--model-id", "own/model"), CARDS % A100, "unjudged"),
    ("GPU048", other(TRITON, "tritonserver", "--model-repository=/models"), CARDS % A100, "unjudged"),
    ("GPU048", triton(f'{{"model": "{LARGE}"}}'), CARDS % A100, "found"),
    ("GPU048", triton(f'{{"model": "{LARGE}"}}'), "", "unjudged"),
    ("GPU048", triton(f'{{"model": "{SMALL}"}}'), CARDS % A100, "unjudged"),
    ("GPU048", triton(f'{{"model": "{LARGE}", "tensor_parallel_size": 4}}'), CARDS % A100, "unjudged"),
    ("GPU048", triton(f'{{"model": "{LARGE}", "quantization": "fp8"}}'), CARDS % A100, "unjudged"),
    ("GPU048", triton('{"model": "own/model"}'), CARDS % A100, "unjudged"),
    ("GPU048", triton('{"model": '), CARDS % A100, "unjudged"),
    # What is mounted elsewhere is no repository, and what is loaded later is not known.
    ("GPU048", triton(f'{{"model": "{LARGE}"}}', mount="/etc/llm"), CARDS % A100, "unjudged"),
    (
        "GPU048",
        triton(f'{{"model": "{LARGE}"}}', option="--model-repository=s3://bucket/models"),
        CARDS % A100,
        "unjudged",
    ),
    ("GPU026", server(SMALL, "-tp", "'3'", count=3), "", "found"),
    ("GPU026", server("own/model", "-tp", "'3'", count=3), "", "unjudged"),
    ("GPU026", server(SMALL, "-tp=8", count=8), "", "passed"),
    ("GPU015", server(SMALL, "--kv-cache-dtype=fp8"), CARDS % A100, "found"),
    ("GPU015", server(SMALL, "--dtype", "bfloat16"), CARDS % A100, "passed"),
    ("GPU015", server(SMALL, "--dtype", "bfloat16"), CARDS % "Unknown", "unjudged"),
    ("GPU050", pool(P5, "limits: {cpu: 1000}"), "", "unjudged"),
    ("GPU050", pool(P5), "", "found"),
    ("GPU050", pool(requires("karpenter.k8s.aws/instance-category", "In", "c", "m")), "", "passed"),
    ("GPU050", pool(requires("karpenter.k8s.aws/instance-gpu-count", "Gt", "0")), "", "found"),
    ("GPU050", pool(requires("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")), "", "passed"),
    ("GPU050", pool(requires("kubernetes.io/arch", "In", "amd64")), "", "unjudged"),
    ("GPU035", JOB % "{}", pool(P5), "found"),
    ("GPU035", JOB % "{}", pool(P5, "disruption: {consolidationPolicy: WhenEmpty}"), "passed"),
    ("GPU035", JOB % "{}", pool(P5, "disruption: {consolidateAfter: Never}"), "passed"),
    ("GPU035", JOB % "{}", pool(requires("kubernetes.io/arch", "In", "amd64")), "unjudged"),
    ("GPU035", JOB % "{annotations: {karpenter.sh/do-not-disrupt: 'true'}}", pool(P5), "passed"),
    ("GPU040", SHARED % f"mps: {{{TEN % 10}}}", "", "found"),
    ("GPU040", SHARED % f"timeSlicing: {{{TEN % 1}}}", "", "passed"),
    ("GPU040", SHARED % f"timeSlicing: {{{INSTANCES}}}", "", "found"),
    ("GPU040", SHARED % f"timeSlicing: {{renameByDefault: true, {INSTANCES}}}", "", "passed"),
    ("GPU040", SHARED % "timeSlicing: {resources: [{name: a, rename: b, replicas: 4}]}", "", "passed"),
    ("GPU040", SHARED % "replicas: [", "", "passed"),
    ("GPU009", pod("image: a:1"), POLICY % f"{{cdi: {{enabled: false}}, toolkit: {{{OFF}}}}}", "found"),
    ("GPU009", pod("image: a:1"), POLICY % f"{{cdi: {{enabled: true}}, toolkit: {{{OFF}}}}}", "passed"),
    ("GPU009", pod("image: a:1"), POLICY % f"{{toolkit: {{{OFF}}}}}", "unjudged"),
    ("GPU009", pod("image: a:1"), POLICY % "{toolkit: {enabled: true}}", "passed"),
    ("GPU009", pod("image: a:1", limits="amd.com/gpu: 1"), "", "passed"),
]


@pytest.mark.parametrize(
    ("rule", "text", "cluster", "expected"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_an_edge(rule: str, text: str, cluster: str, expected: str) -> None:
    found = findings_of(rule, text, cluster=cluster)
    open_rules = {one.rule.id for one in report_of(text, cluster=cluster).unjudged}
    assert ("found" if found else "unjudged" if rule in open_rules else "passed") == expected


def container(text: str) -> Container:
    return read(SourceText("a", text)).manifests[0].templates[0].containers[0]


@pytest.mark.parametrize(
    "words",
    [
        (f"--model={SMALL}", "--max-model-len=4096"),
        (SMALL, "--max-model-len", "'4096'"),
        ("serve", SMALL, "--max_model_len", "'4096'"),
        ("sh", "-c", f"'exec vllm serve {SMALL} --max-model-len 4096'"),
    ],
)
def test_a_command_line_is_read_however_it_is_written(words: tuple[str, ...]) -> None:
    found = served(container(server(*words)))
    assert found is not None
    assert found.model is not None
    assert found.serving is not None
    assert (found.model.facts.name, found.serving.context) == ("llama-3.1-8b", 4096)


@pytest.mark.parametrize(
    ("tag", "engine"),
    [
        ("v0.9.2", "vllm-0.10"),
        ("v0.11.0", "vllm-0.16"),
        ("v0.19.0", "vllm"),
        ("v0.21.1", "vllm-0.21"),
        ("x", "vllm"),
    ],
)
def test_the_engine_is_that_of_the_tag(tag: str, engine: str) -> None:
    found = served(container(server(SMALL, tag=tag)))
    assert found is not None
    assert found.serving is not None
    assert found.serving.engine.name == engine
