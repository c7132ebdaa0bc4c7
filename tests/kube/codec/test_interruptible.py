"""A pod says that it may be ended at any time."""

import pytest

from gpufleet.kube.codec.pod import read_placed_pod, read_pod
from gpufleet.kube.kube_errors import ObjectError
from tests.kube.wire_objects import a_pod

INTERRUPTIBLE = "gpufleet.io/interruptible"


@pytest.mark.parametrize(("written", "meant"), [("true", True), ("false", False)])
def test_it_is_its_own_word(written: str, meant: bool) -> None:
    assert read_pod(a_pod(annotations={INTERRUPTIBLE: written})).interruptible is meant


def test_who_says_nothing_may_not_be_interrupted() -> None:
    assert not read_pod(a_pod()).interruptible


def test_a_label_is_not_enough() -> None:
    assert not read_pod(a_pod(labels={INTERRUPTIBLE: "true"})).interruptible


@pytest.mark.parametrize("written", ["", "yes", "True", "1"])
def test_any_other_word_is_refused_and_of_a_running_pod_means_no(written: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(annotations={INTERRUPTIBLE: written}))
    assert caught.value.field == f"metadata.annotations[{INTERRUPTIBLE}]"
    running = a_pod(annotations={INTERRUPTIBLE: written}, nodeName="n")
    assert not read_placed_pod(running).interruptible
