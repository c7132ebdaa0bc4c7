"""How long a pod says that it runs."""

from typing import Any

import pytest

from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.kube_errors import ObjectError
from tests.kube.wire_objects import a_pod

RUN_TIME = "gpufleet.io/run-time"
FIELD = f"metadata.annotations[{RUN_TIME}]"


@pytest.mark.parametrize(
    ("written", "deadline_s", "run_time_s"),
    [
        (None, None, None),
        ("1h30m", None, 5400),
        (None, 600, 600),
        ("5m", 600, 300),
        ("20m", 600, 600),
        (None, 2**62, 100 * 365 * 86_400),
    ],
)
def test_the_shorter_word_counts(written: str | None, deadline_s: int | None, run_time_s: int | None) -> None:
    annotations = {} if written is None else {RUN_TIME: written}
    deadline: dict[str, Any] = {} if deadline_s is None else {"activeDeadlineSeconds": deadline_s}
    found = read_pod(a_pod(annotations=annotations, **deadline))
    assert found.run_time_us == (None if run_time_s is None else run_time_s * 10**6)


@pytest.mark.parametrize("written", ["", "soon", "0s", "-5m", "1h30", "999999999d"])
def test_what_is_no_length_of_time_is_refused(written: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_pod(a_pod(annotations={RUN_TIME: written}))
    assert caught.value.field == FIELD
