"""Whatever a server answers: samples, or an error that names the address; nothing else."""

import json
from array import array
from collections.abc import Iterator

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from gpufleet.model.model_errors import InputError, WorldError
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series, decode, refusal
from gpufleet.usage.prometheus.gpu_use import gpu_use
from gpufleet.usage.prometheus.window import PART_POINTS_MAX, Window, window_until
from gpufleet.usage.samples import Sample

WHERE = "http://there"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.sampled_from(
    ["0", "1", "57.5", "100", "101", "-1", "1e400", "NaN", "+Inf", "9223372036854775794"]
)
VALUES = st.tuples(
    st.integers(0, 3600) | st.floats() | st.just(-1) | st.just(1e300), NUMBERS | st.text(max_size=3)
)
STREAM = st.fixed_dictionaries(
    {"metric": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3) | JSON},
    optional={"values": st.lists(VALUES, max_size=4) | JSON},
)
BODY = st.fixed_dictionaries(
    {"status": st.sampled_from(["success", "error"]) | JSON},
    optional={
        "data": st.fixed_dictionaries(
            {"resultType": st.just("matrix") | JSON, "result": st.lists(STREAM) | JSON}
        ),
        "warnings": st.lists(st.text(max_size=5), max_size=2) | JSON,
        "error": st.text(max_size=5) | JSON,
    },
)


@given(
    BODY.map(lambda body: json.dumps(body).encode())
    | JSON.map(lambda body: json.dumps(body).encode())
    | st.binary()
)
@example(b"[" * 100_000)
@example(
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"\\u001b[2J"},"values":[]}]}}'
)
def test_an_answer_is_series_or_the_worlds_fault(body: bytes) -> None:
    said, series = "", tuple[Series, ...]()
    try:
        series = decode(body, WHERE).series
    except WorldError as error:
        said = str(error)
    assert not said or (WHERE in said and said.isprintable())
    for one in series:
        assert len(one.times_s) == len(one.values)
        assert all(text.isprintable() for text in one.labels.values())
    assert isinstance(refusal(body), str)


LABEL_NAMES = st.sampled_from(
    [
        "UUID",
        "gpu",
        "modelName",
        "Hostname",
        "hostname",
        "GPU_I_ID",
        "GPU_I_PROFILE",
        "pod",
        "namespace",
        "container",
        "exported_pod",
        "exported_namespace",
        "pod_name",
        "job",
        "instance",
        "resource",
        "owner_kind",
        "owner_name",
        "owner_is_controller",
        "replicaset",
    ]
)
LABEL_VALUES = st.sampled_from(
    [
        "a",
        "b",
        "0",
        "-1",
        "9" * 30,
        "x" * 300,
        "Deployment",
        "ReplicaSet",
        "nvidia_com_gpu",
        "true",
        "NVIDIA A100-SXM4-80GB",
        "Tesla T4",
        "\u0661",
        "$(x)",
        "a/b",
    ]
)
SERIES = st.builds(
    lambda labels, points: Series(labels, array("q", points), array("d", points.values())),
    st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=10),
    st.dictionaries(
        st.integers(0, 10).map(lambda at: at * 60),
        st.sampled_from([0.0, 1.0, 50.5, 100.0, 1e18, -1.0, 1e308]),
        max_size=5,
    ),
)


class _Anything(msgspec.Struct):
    """A server that answers each query with the next of these."""

    answers: list[list[Series]]
    url: str = WHERE

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:  # noqa: ARG002
        """One part."""
        yield PrometheusAnswer(tuple(self.answers.pop() if self.answers else ()), ("careful",))


@given(st.lists(st.lists(SERIES, max_size=4), min_size=7, max_size=7))
def test_any_series_make_samples_or_an_error(answers: list[list[Series]]) -> None:
    said, samples = "", tuple[Sample, ...]()
    try:
        samples = gpu_use(_Anything(answers), Window(0, 600, 60)).samples
    except InputError as error:
        said = str(error)
    assert samples or WHERE in said
    assert all(0 <= one.gpu_milli <= 1000 and one.gpus >= 1 for one in samples)


@given(
    st.integers(0, 2 * 10**9), st.integers(1, 10**7), st.integers(1, 86_400), st.integers(1, PART_POINTS_MAX)
)
def test_parts_are_the_window_and_each_is_small(
    end_s: int, length_s: int, step_s: int, points_max: int
) -> None:
    try:
        window = window_until(end_s, length_s, step_s)
    except InputError:
        return
    assert window.first_s % step_s == window.last_s % step_s == 0
    assert end_s - step_s < window.last_s <= end_s
    assert window.points == length_s // step_s
    if window.points // points_max > 500:
        return
    parts = list(window.parts(points_max))
    assert all(part.points <= points_max and part.step_s == step_s for part in parts)
    assert [part.first_s for part in parts[1:]] == [part.last_s + step_s for part in parts[:-1]]
    assert (parts[0].first_s, parts[-1].last_s) == (window.first_s, window.last_s)
    days = window.by_day()
    assert days.last_s == window.last_s
    assert days.first_s - days.step_s <= window.first_s - step_s
