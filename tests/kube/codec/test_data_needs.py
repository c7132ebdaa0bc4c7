"""What pods say of their models and datasets."""

import pytest

from gpufleet.kube.codec.data_needs import read_data_needs
from gpufleet.model.data import NO_DATA, DataAsk, DataNeeds, DataPolicy
from gpufleet.model.model_errors import InputError

DATA, SIZE, POLICY = "gpufleet.io/data", "gpufleet.io/data-size", "gpufleet.io/data-policy"


def test_a_pod_without_the_annotation_reads_nothing() -> None:
    assert read_data_needs({POLICY: "Require"}) == NO_DATA


def test_names_revisions_and_sizes_are_read_once_each() -> None:
    found = read_data_needs({DATA: " model/org/llama@r1, dataset/imagenet,dataset/imagenet, "})
    assert found == DataNeeds((DataAsk("model/org/llama", "r1"), DataAsk("dataset/imagenet")))
    patient = read_data_needs({DATA: "model/llama", POLICY: "WaitUpTo=10m"})
    assert patient == DataNeeds((DataAsk("model/llama"),), DataPolicy.WAIT_UP_TO, 600 * 10**6)
    sized = read_data_needs({DATA: "model/llama", SIZE: "141Gi", POLICY: "Require"})
    assert sized == DataNeeds((DataAsk("model/llama", "", 141 * 2**30),), DataPolicy.REQUIRE)


@pytest.mark.parametrize(
    ("annotations", "field", "value"),
    [
        ({DATA: "llama"}, DATA, "llama"),
        ({DATA: "image/llama"}, DATA, "image/llama"),
        ({DATA: "model/llama@"}, DATA, "model/llama@"),
        ({DATA: ""}, DATA, ""),
        ({DATA: ",".join(f"model/{number}" for number in range(17))}, DATA, "model/0,"),
        ({DATA: "model/" + "x" * 5000}, DATA, "model/xx"),
        ({DATA: "model/a, model/b", SIZE: "1Gi"}, SIZE, "1Gi"),
        ({DATA: "model/a", SIZE: "large"}, SIZE, "large"),
        ({DATA: "model/a", SIZE: "-1Gi"}, SIZE, "-1Gi"),
        ({DATA: "model/a", POLICY: "Always"}, POLICY, "Always"),
        ({DATA: "model/a", POLICY: "WaitUpTo"}, POLICY, ""),
        ({DATA: "model/a", POLICY: "WaitUpTo=soon"}, POLICY, "soon"),
        ({DATA: "model/a", POLICY: "Prefer=10m"}, POLICY, "Prefer=10m"),
    ],
)
def test_what_cannot_be_understood_is_named(annotations: dict[str, str], field: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        read_data_needs(annotations)
    assert caught.value.field == f"metadata.annotations[{field}]"
    assert str(caught.value.value).startswith(value)
