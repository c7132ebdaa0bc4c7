"""Python's completion of a pod: what each addition adds, and to which pods."""

from typing import Any

import pytest

from gpufleet.admission.cel.completion import completion, used_variables
from gpufleet.cli import admission_options
from gpufleet.completion.additions import (
    CHOSEN,
    WITHOUT_SETTINGS,
    Addition,
    Completion,
    RuntimeClass,
    completion_of,
)
from gpufleet.completion.completing import ADDITIONS, completing_patch
from gpufleet.completion.json_patch import patched_copy
from gpufleet.model.model_errors import InputError

Object = dict[str, Any]
ALL = Completion("fleet", frozenset(), ("nvidia.com/gpu",), RuntimeClass("nvidia"), True)


def pod(limits: Object, memory: str = "", **more: Any) -> Object:
    amounts = {**limits, **({"memory": memory} if memory else {})}
    container = {"name": "main", "image": "a:1", "resources": {"limits": amounts}}
    return {"metadata": more.pop("metadata", {}), "spec": {"containers": [container], **more}}


def completed(one: Object, completion: Completion = ALL) -> Object:
    spec: Object = patched_copy(one, completing_patch(one, completion))["spec"]
    return spec


def test_every_addition_is_made_by_a_policy_and_by_python() -> None:
    assert set(ADDITIONS) == set(Addition) == {*WITHOUT_SETTINGS, *CHOSEN}
    variables = " ".join(one.expression for one in used_variables(completion()))
    in_policy = {
        one for one in Addition if f'"{one.value}" in variables.additions' in completion() + variables
    }
    # The runtime class has a policy of its own, of which the class is the parameter.
    assert in_policy == set(Addition) - {Addition.RUNTIME_CLASS}
    assert [one.value for one in Addition] == admission_options.ADDITIONS


def test_a_pod_that_asks_for_no_gpu_stays_as_it_is() -> None:
    assert completing_patch(pod({"cpu": "1"}), ALL) == []
    claims = pod({}, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    assert completing_patch(claims, ALL) == []


@pytest.mark.parametrize("name", ["nvidia.com/vgpu", "alpha.kubernetes.io/nvidia-gpu", "aliyun.com/gpu-mem"])
def test_a_pod_that_asks_for_what_another_scheduler_serves_stays_with_that(name: str) -> None:
    assert completing_patch(pod({name: "1"}), ALL) == []


def test_what_is_left_out_is_not_made() -> None:
    without = Completion("fleet", frozenset(Addition))
    assert completing_patch(pod({"nvidia.com/gpu": "4"}), without) == []


def test_a_completed_pod_needs_nothing_more() -> None:
    one = pod({"nvidia.com/gpu": "4", "nvidia.com/gpumem": "4000"})
    whole = patched_copy(one, completing_patch(one, ALL))
    assert completing_patch(whole, ALL) == []


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        ("", "8Gi"),
        ("16Gi", "8Gi"),
        ("64Gi", "8Gi"),
        ("6Gi", "3Gi"),
        ("3Gi", "1536Mi"),
        ("3G", "1430Mi"),
        ("1Mi", "524288"),
        ("1500m", "1"),
        ("1", "1"),
    ],
)
def test_memory_at_shm_is_half_of_the_limit_and_at_most_eight_gibibytes(memory: str, size: str) -> None:
    (volume,) = completed(pod({"nvidia.com/gpu": "2"}, memory))["volumes"]
    assert volume == {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def test_one_gpu_or_instances_of_two_profiles_need_no_memory_at_shm() -> None:
    assert "volumes" not in completed(pod({"nvidia.com/gpu": "1"}))
    assert "volumes" not in completed(pod({"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"}))


def test_a_volume_of_the_name_is_left_alone() -> None:
    volumes = [{"name": "dshm", "emptyDir": {}}]
    found = completed(pod({"nvidia.com/gpu": "2"}, volumes=volumes))
    assert [one["name"] for one in found["volumes"]] == ["dshm", "gpu-dshm"]
    assert found["containers"][0]["volumeMounts"][0]["name"] == "gpu-dshm"


def test_a_toleration_of_everything_is_one_of_each_taint() -> None:
    known = [{"operator": "Exists"}]
    assert completed(pod({"nvidia.com/gpu": "1"}, tolerations=known))["tolerations"] == known


def test_a_runtime_class_is_given_where_the_server_takes_it() -> None:
    one = pod({"nvidia.com/gpu": "1"}, nodeSelector={"runtime": "other"})
    selecting = RuntimeClass("nvidia", node_selector={"runtime": "nvidia"})
    assert "runtimeClassName" not in completed(one, Completion(runtime_class=selecting))
    assert "runtimeClassName" not in completed(one, Completion(runtime_class=RuntimeClass("nvidia", True)))
    assert completed(one, ALL)["runtimeClassName"] == "nvidia"
    named = pod({"nvidia.com/gpu": "1"}, runtimeClassName="other")
    assert completed(named, ALL)["runtimeClassName"] == "other"


def test_a_share_by_label_gets_its_slot() -> None:
    one = pod({"cpu": "1"}, metadata={"labels": {"gpufleet.io/gpu-fraction": "0.5"}})
    assert completed(one)["containers"][0]["resources"]["limits"]["gpufleet.io/gpu-share"] == "1"


def test_where_two_notations_stand_hamis_slots_come() -> None:
    one = pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"})
    other = {"name": "b", "image": "a:1", "resources": {"limits": {"volcano.sh/vgpu-number": "2"}}}
    one["spec"]["containers"].append(other)
    first, second = completed(one)["containers"]
    assert first["resources"]["limits"]["gpufleet.io/gpu-share"] == "1"
    assert second["resources"]["limits"] == {"volcano.sh/vgpu-number": "2"}


def test_the_image_of_a_static_pod_stays_as_it_is() -> None:
    mirrored = pod({"nvidia.com/gpu": "1"}, metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    assert completing_patch(mirrored, ALL) == []


def test_a_key_that_no_taint_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="--pool-taint"):
        completion_of("fleet", (), ("two words",), None, shared_memory=False)
