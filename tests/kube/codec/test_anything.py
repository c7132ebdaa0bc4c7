"""Whatever stands in a pod, reading it ends in a value or in one harmless line for its owner."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube import keys
from gpufleet.kube.codec.gangs import read_membership
from gpufleet.kube.codec.pod import read_placed_pod, read_pod
from gpufleet.kube.codec.volumes import read_volumes
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod
from tests.kube.shelf import Shelf

TEXT = st.text(max_size=12) | st.sampled_from(["0.5", "50%", "4Gi", "1", "2", "train", "A100", "-1", "1e9"])
KEYS = st.sampled_from(
    sorted(keys.POD_ANNOTATIONS | {keys.KUEUE_QUEUE, keys.PLUGINS_POD_GROUP, keys.JOB_SET})
)
MARKS = st.dictionaries(KEYS | st.text(max_size=5), TEXT, max_size=5)
RESOURCES = st.sampled_from(
    ["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", keys.GPU_SHARE, *keys.SHARE_RESOURCES, "x y"]
)
AMOUNTS = st.dictionaries(RESOURCES, TEXT, max_size=4)
NAMES = st.sampled_from(["a", "b", "train"])
CONTAINERS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "resources": st.fixed_dictionaries({"limits": AMOUNTS, "requests": AMOUNTS}),
        "ports": st.lists(
            st.fixed_dictionaries({"hostPort": st.integers(-5, 70000), "protocol": TEXT}), max_size=2
        ),
    }
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {
        "matchLabels": MARKS,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {
                    "key": TEXT,
                    "operator": st.sampled_from(["In", "NotIn", "Exists", "Gt", "Like"]),
                    "values": st.lists(TEXT, max_size=2),
                }
            ),
            max_size=2,
        ),
    }
)
SPREAD = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(-1, 3),
        "topologyKey": TEXT,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway", "Never"]),
        "labelSelector": SELECTORS,
        "matchLabelKeys": st.lists(TEXT, max_size=2),
    }
)
SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(CONTAINERS, max_size=3),
        "initContainers": st.lists(CONTAINERS, max_size=2),
        "nodeSelector": MARKS,
        "tolerations": st.lists(
            st.fixed_dictionaries({"key": TEXT, "operator": TEXT, "value": TEXT}), max_size=2
        ),
        "topologySpreadConstraints": st.lists(SPREAD, max_size=2),
        "volumes": st.just([{"name": "v", "ephemeral": {}}]) | st.just([]),
        "priority": st.none() | st.integers(-(2**31), 2**31 - 1),
    }
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": TEXT,
                "namespace": TEXT,
                "uid": TEXT,
                "labels": MARKS,
                "annotations": MARKS,
                "creationTimestamp": st.none() | TEXT,
            }
        ),
        "spec": SPECS,
    }
)


@given(PODS)
def test_a_value_or_a_harmless_line(written: dict[str, Any]) -> None:
    pod = msgspec.json.decode(json.dumps(written), type=Pod)
    for reading in (
        lambda: read_pod(pod),
        lambda: read_placed_pod(pod),
        lambda: read_membership(pod, Shelf()),
        lambda: read_volumes(pod, Shelf()),
    ):
        try:
            reading()
        except ObjectError as error:
            message = str(error)
            assert message.isascii()
            assert message.isprintable()
            assert len(message) < 2000
