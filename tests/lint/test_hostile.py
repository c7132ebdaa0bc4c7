"""Lint never fails, whatever the text; what it mends, it mends once, and comments stay."""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.lint.edits.applying import DocumentFix, apply_fixes
from gpufleet.lint.edits.edits import Remove
from gpufleet.lint.rules import all_rules
from gpufleet.lint.rules.shared_memory import PLACE
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from tests.lint.linting import fixed, report_of

PIECES = st.sampled_from(
    [
        *(
            "a",
            "kind",
            "Pod",
            "apiVersion",
            "v1",
            "spec",
            "containers",
            "nvidia.com/gpu",
            "1",
            "'",
            '"',
            "\n",
            " ",
        ),
        *(
            ": ",
            "- ",
            "{",
            "}",
            "[",
            "]",
            ",",
            "&a ",
            "*a",
            "|\n",
            "<<: ",
            "---\n",
            "# ",
            "\t",
            "!!",
            "\x07",
            "ü",
        ),
    ]
)
# Values at places that rules read, right ones and wrong ones.
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "all", "0.5", "1", "Memory", "é"])
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "key", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)
NAMES = (
    *(
        "name",
        "image",
        "env",
        "value",
        "resources",
        "limits",
        "requests",
        "nvidia.com/gpu",
        "memory",
        "volumeMounts",
    ),
    *(
        "mountPath",
        "securityContext",
        "privileged",
        "volumes",
        "emptyDir",
        "medium",
        "hostPath",
        "path",
        "tolerations",
    ),
    *(
        "key",
        "nodeSelector",
        "beta.kubernetes.io/os",
        "template",
        "spec",
        "metadata",
        "annotations",
        "containers",
    ),
)
TREES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)
KINDS = st.sampled_from(
    ["v1 Pod", "apps/v1 Deployment", "batch/v1 Job", "kubeflow.org/v1 PyTorchJob", "v1 List"]
)

VARIABLES = st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "OTHER"])
CONTAINERS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b"]),
        "image": st.sampled_from(["nvidia/cuda", "vllm/vllm-openai:v1", "web:1"]),
    },
    optional={
        "env": st.lists(
            st.fixed_dictionaries({"name": VARIABLES, "value": st.sampled_from(["all", "2", "void"])}),
            max_size=3,
        ),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                part: st.dictionaries(
                    st.sampled_from(["nvidia.com/gpu", "cpu", "memory", "alpha.kubernetes.io/nvidia-gpu"]),
                    st.sampled_from([1, 2, "4", "1Gi"]),
                )
                for part in ("limits", "requests")
            },
        ),
        "securityContext": st.fixed_dictionaries({"privileged": st.booleans()}),
        "volumeMounts": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["v", "w"]), "mountPath": st.sampled_from([PLACE, "/d"])}
            ),
            max_size=2,
        ),
    },
)
VOLUMES = st.fixed_dictionaries(
    {"name": st.sampled_from(["v", "w"])},
    optional={
        "emptyDir": st.fixed_dictionaries(
            {}, optional={"medium": st.just("Memory"), "sizeLimit": st.just("9Gi")}
        ),
        "hostPath": st.fixed_dictionaries({"path": st.sampled_from(["/dev/nvidia0", "/x"])}),
    },
)
PODS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
    optional={
        "nodeSelector": st.dictionaries(
            st.sampled_from(["beta.kubernetes.io/os", "kubernetes.io/os"]), st.just("linux")
        ),
        "tolerations": st.lists(
            st.fixed_dictionaries({"key": st.sampled_from(["nvidia.com/gpu", "x"])}), max_size=2
        ),
        "volumes": st.lists(VOLUMES, max_size=2),
        "hostPID": st.booleans(),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    report_of(text)
    fixed(text)


@settings(max_examples=60, deadline=None)
@given(KINDS, TREES, TREES, st.booleans())
def test_no_object_breaks_it(kind: str, spec: Any, metadata: Any, flow: bool) -> None:
    version, _, name = kind.partition(" ")
    tree = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec, "items": [spec]}
    text = yaml.safe_dump(tree, default_flow_style=flow)
    report_of(text)
    once = fixed(text)
    assert fixed(once) == once


@settings(max_examples=60, deadline=None)
@given(PODS, st.sampled_from([True, False, None]), st.booleans())
def test_a_pod_is_mended_once_and_what_can_be_mended_is(pod: Any, flow: bool | None, crlf: bool) -> None:
    text = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "spec": pod}, default_flow_style=flow, sort_keys=False
    )
    once = fixed(text.replace("\n", "\r\n") if crlf else text)
    assert [one.rule.id for one in report_of(once).findings if one.fix is not None] == []
    assert fixed(once) == once


@settings(max_examples=60, deadline=None)
@given(PODS)
def test_comments_and_all_that_no_fix_names_stay(pod: Any) -> None:
    plain = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": pod}, sort_keys=False).splitlines()
    lines = [f"{line} # {number}" for number, line in enumerate(plain)]
    comments = [f"# {number}" for number in range(len(lines))]
    text = "\n".join(lines)
    reading = read(SourceText("a.yaml", text))
    for finding in lint([reading], all_rules()).findings:
        if finding.fix is not None:
            after = apply_fixes(
                reading.source, reading.parsed, [DocumentFix(0, finding.fix)]
            ).text.splitlines()
            removed = [edit for edit in finding.fix.edits if isinstance(edit, Remove)]
            assert [line for line in after if line in lines] == [line for line in lines if line in after]
            if not removed:
                assert [line[line.index("#") :] for line in after if "#" in line] == comments


def test_rules_that_undo_each_other_keep_no_fix_of_others_waiting() -> None:
    text = """apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  containers:
  - name: a
    image: web:1
    resources:
      limits: {}
      requests:
        nvidia.com/gpu: 1
        alpha.kubernetes.io/nvidia-gpu: 1
  - name: b
    image: web:1
    env:
    - name: NVIDIA_VISIBLE_DEVICES
      value: all
    - name: NVIDIA_VISIBLE_DEVICES
      value: all
"""
    once = fixed(text)
    assert [one.rule.id for one in report_of(once).findings if one.fix is not None] == []
    assert "alpha.kubernetes.io" not in once
    assert "NVIDIA_VISIBLE_DEVICES" not in once
