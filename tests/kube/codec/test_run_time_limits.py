"""For how long a pod may run, by its own word."""

import pytest

from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.kube_errors import ObjectError
from tests.kube.wire_objects import a_pod

OURS = "gpufleet.io/run-time-max"
KUEUES = "kueue.x-k8s.io/max-exec-time-seconds"


@pytest.mark.parametrize(
    ("ours", "kueues", "limit_s"),
    [
        (None, None, None),
        ("1h30m", None, 5400),
        (None, "90", 90),
        ("1h", "60", 60),
        ("1m", "3600", 60),
        (None, "2147483647", 2_147_483_647),
    ],
)
def test_the_shorter_word_counts(ours: str | None, kueues: str | None, limit_s: int | None) -> None:
    annotations = {} if ours is None else {OURS: ours}
    labels = {} if kueues is None else {KUEUES: kueues}
    found = read_pod(a_pod(annotations=annotations, labels=labels)).run_time_max_us
    assert found == (None if limit_s is None else limit_s * 10**6)


@pytest.mark.parametrize("text", ["", "0s", "soon", "-1m", "60"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(annotations={OURS: text}))
    assert caught.value.field == f"metadata.annotations[{OURS}]"


@pytest.mark.parametrize("text", ["", "0", "-1", "1h", "2147483648"])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(labels={KUEUES: text}))
    assert caught.value.field == f"metadata.labels[{KUEUES}]"
