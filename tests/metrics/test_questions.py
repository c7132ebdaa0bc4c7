"""Paths of the metrics APIs as clients send them, the odd ones too."""

import pytest

from gpufleet.metrics.wire.questions import AboutNothing, AboutObjects, Document, NoSuchPath, read_question
from gpufleet.model.model_errors import InputError

PODS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/*/gpu_utilization"


def test_a_path_names_objects_and_a_metric() -> None:
    question = read_question(PODS)
    assert isinstance(question, AboutObjects)
    assert (question.namespace, question.resource, question.name) == ("team", "pods", "*")
    assert question.metric == "gpu_utilization"


def test_a_path_of_the_external_api_names_a_metric_alone() -> None:
    question = read_question(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/depth?labelSelector=a%3Db"
    )
    assert isinstance(question, AboutNothing)
    assert (question.namespace, question.metric) == ("team", "depth")


def test_a_slash_at_the_end_changes_nothing() -> None:
    assert read_question("/apis/") == Document("/apis")


@pytest.mark.parametrize(
    "target",
    [
        # A reader of URLs would take what follows two slashes for a host.
        f"/{PODS}",
        "//[x/apis",
        "//",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/%2E%2E/pods/*/gpu_utilization",
        "/apis/custom.metrics.k8s.io/v1beta2",
        "/api/v1/pods",
        "*",
    ],
)
def test_other_paths_are_no_path_of_these_apis(target: str) -> None:
    assert isinstance(read_question(target), NoSuchPath | Document)
    assert not isinstance(read_question(target), AboutObjects)


@pytest.mark.parametrize("query", ["&".join(["a=1"] * 101), "labelSelector=a%20b%20c"])
def test_a_query_that_cannot_be_read_is_an_error_of_its_sender(query: str) -> None:
    with pytest.raises(InputError):
        read_question(f"{PODS}?{query}")
