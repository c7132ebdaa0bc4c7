"""Objects that no schema would let pass: they end no diagnosis, and what is secret in them is not told."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import diagnose
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.kinds import WANTED, Wanted
from gpufleet.doctor.live.trimming import manifest_of
from gpufleet.doctor.report import report_of
from gpufleet.kube.resources import Kind
from tests.doctor.facts_of_text import NOW, facts_of
from tests.doctor.test_healthy_clusters import CLUSTERS

SECRET = "hf_n0b0dyMayReadThis"  # noqa: S105 - what the tests look for
SOUND = facts_of((CLUSTERS / "kubeadm-mig.yaml").read_text("utf-8"))

WORDS = """
metadata name namespace labels annotations ownerReferences controller kind creationTimestamp
deletionTimestamp finalizers spec status template containers initContainers resources limits
requests nvidia.com/gpu nvidia.com/gpu.product cpu memory taints tolerations key value effect
operator values nodeSelector affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution
nodeSelectorTerms matchExpressions matchLabels selector capacity allocatable conditions type reason
message lastTransitionTime nodeName phase containerStatuses state waiting terminated restartCount
schedulerName priorityClassName runtimeClassName replicas parallelism completions suspend devices
health queueName resourceGroups coveredResources flavors nominalQuota cohort hard limits rules
webhooks clientConfig service endpoints ports groups expr alert minReplicas maxReplicas metrics
scaleTargetRef driver pool involvedObject renewTime holderIdentity volumes hostPath configMap image
env args command
""".split()  # noqa: SIM905 - one word a line is a page that nobody reads
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["nvidia.com/gpu", "True", "False", "gpufleet", "1e999999", "-1", "9999999999999999999E", "dgx-1"]
    ),
    st.sampled_from(
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "vllm:1@sha256:"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
    ),
    max_leaves=12,
)


def kind_of(one: Wanted) -> Kind:
    return Kind(one.group, "v1", one.name.lower(), one.name)


def diagnosed(*bodies: tuple[Wanted, Any]) -> str:
    """The report of a sound cluster with these objects in it."""
    objects = tuple(manifest_of(kind_of(one), json.dumps(body).encode()) for one, body in bodies)
    kinds = frozenset(one.name for one in WANTED)
    facts = Facts((*SOUND.objects, *objects), NOW, "v1.37.0", kinds, {}, SOUND.metrics)
    return msgspec.json.encode(report_of(diagnose(facts, all_checks()))).decode()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(WANTED), st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=6)),
        min_size=1,
        max_size=4,
    )
)
def test_no_object_ends_a_diagnosis(bodies: list[tuple[Wanted, Any]]) -> None:
    assert diagnosed(*bodies)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in pairs:
        found += paths(below, (*here, key))
    return found


def plain(node: Any) -> Any:
    """A tree of lint as a value."""
    if hasattr(node, "entries"):
        return {key.text: plain(value) for key, value in node.entries}
    return [plain(one) for one in node.items] if hasattr(node, "items") else node.value


REAL = [
    (Wanted(one.group, one.kind), plain(one.root.node))
    for path in sorted(CLUSTERS.glob("*.yaml"))
    for one in facts_of(path.read_text("utf-8")).objects
]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_sound_object_with_one_wrong_field_ends_no_diagnosis(data: st.DataObject) -> None:
    wanted, body = data.draw(st.sampled_from(REAL))
    body = json.loads(json.dumps(body, default=str))
    path = data.draw(st.sampled_from([one for one in paths(body) if one]))
    place = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(VALUES)
    assert diagnosed((wanted, body))


NAMES = ("HF_TOKEN", "API_KEY", "WANDB_KEY", "A")
"""Settings of NVIDIA's runtime are left out: they are told, because they say which GPUs and drivers."""


def with_secrets(value: Any) -> Any:
    """The same with a secret wherever people put one: the containers' variables and arguments."""
    if isinstance(value, list):
        return [with_secrets(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: with_secrets(one) for key, one in value.items()}
    for containers in ("containers", "initContainers"):
        for one in found.get(containers) or ():
            one["env"] = [*({"name": name, "value": SECRET} for name in NAMES), *one.get("env", ())]
            one["args"] = [*one.get("args", ()), f"--token={SECRET}", "--api-key", SECRET]
            one["command"] = [
                *one.get("command", ["sh", "-c"]),
                f"curl -H 'Authorization: Bearer {SECRET}' x",
            ]
    if "metadata" in found:
        note = json.dumps({"env": SECRET})
        metadata = found["metadata"] or {}
        notes = {"kubectl.kubernetes.io/last-applied-configuration": note, "example.com/token": SECRET}
        found["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **notes}}
    return found


SETTINGS = (
    Wanted("", "ConfigMap"),
    {"metadata": {"name": "c", "namespace": "gpu-operator"}, "data": {"config.yaml": f"token: {SECRET}"}},
)
GPU_POD = {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100"},
    "containers": [
        {
            "name": "main",
            "image": "vllm/vllm-openai:v0.11.0",
            "resources": {"limits": {"nvidia.com/gpu": "99"}},
        }
    ],
}
BROKEN_DEPLOYMENT = (
    Wanted("apps", "Deployment"),
    {
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"replicas": 3, "template": {"metadata": {}, "spec": GPU_POD}},
    },
)


def test_of_work_that_is_broken_in_many_ways_no_secret_is_told() -> None:
    pod = {"metadata": {"name": "p", "namespace": "team-a"}, "spec": GPU_POD, "status": {"phase": "Pending"}}
    wanted, deployment = BROKEN_DEPLOYMENT
    report = diagnosed((wanted, with_secrets(deployment)), (Wanted("", "Pod"), with_secrets(pod)), SETTINGS)
    assert "token-written" in report
    assert SECRET not in report


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_else_is_wrong_no_secret_is_told(data: st.DataObject) -> None:
    wanted, body = data.draw(st.sampled_from([*REAL, BROKEN_DEPLOYMENT]))
    body = json.loads(json.dumps(body, default=str))
    for _ in range(data.draw(st.integers(0, 3))):
        path = data.draw(st.sampled_from([one for one in paths(body) if len(one) > 1] or [("kind",)]))
        place = body
        for key in path[:-1]:
            place = place[key]
        if isinstance(place, dict):
            place.pop(path[-1], None)
    assert SECRET not in diagnosed((wanted, with_secrets(body)), SETTINGS)
