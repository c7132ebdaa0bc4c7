"""What a Prometheus server answers to a query over a range, decoded (its HTTP API, v1, ``query_range``).

Pure. A point is a time in seconds and a number as text. What is no number at all (NaN, infinities) is no
measurement and left out.
"""

import math
from array import array

import msgspec

from gpufleet.model.model_errors import WorldError, printable

CLUSTER = "cluster"
"""The label by which series of several clusters are told apart; dashboards and alerts use it too."""
NAMES_SHOWN = 5
"""A sentence has room for so many."""


class Series(msgspec.Struct, frozen=True):
    """One series: its labels without the metric's name, and its points by time."""

    labels: dict[str, str]
    times_s: "array[int]"
    values: "array[float]"


class PrometheusAnswer(msgspec.Struct, frozen=True):
    """All series of a query, and what the server warns of."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


class _Stream(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815  the name on the wire
    result: list[_Stream] | None = None


class _Success(msgspec.Struct):
    status: str
    data: _Data | None = None
    warnings: tuple[str, ...] | None = None


class _Refusal(msgspec.Struct):
    status: str
    error: str
    errorType: str = ""  # noqa: N815  the name on the wire


def decode(body: bytes, where: str) -> PrometheusAnswer:
    """The series of an answer; raises WorldError, which names ``where``, for what is none."""
    try:
        found = msgspec.json.decode(body, type=_Success)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WorldError(
            f"{where} does not answer as Prometheus does ({printable(str(error))}): {beginning(body)}; "
            "check the address, and whether something before the server asks for a login"
        ) from error
    if found.status != "success" or found.data is None:
        raise WorldError(f"{where} answers without data, with status {printable(found.status)}")
    if found.data.resultType != "matrix":
        kind = printable(found.data.resultType)
        raise WorldError(f"{where} answers a query over a range with {kind} instead of a matrix")
    series = tuple(_series(one, where) for one in found.data.result or ())
    return PrometheusAnswer(series, tuple(found.warnings or ()))


def within(answer: PrometheusAnswer, first_s: int, last_s: int, where: str) -> PrometheusAnswer:
    """The answer, of which every point is within the time that was asked for.

    Raises WorldError for another: a cache before a server answers with points of an earlier question.
    """
    for one in answer.series:
        for told_s in (min(one.times_s), max(one.times_s)) if one.times_s else ():
            if not first_s <= told_s <= last_s:
                away_s = told_s - last_s if told_s > last_s else told_s - first_s
                raise WorldError(
                    f"{where} answers about another time than it was asked for ({away_s:+d} s); "
                    "look at what stands before it, such as a cache"
                )
    return answer


def of_cluster(answer: PrometheusAnswer, name: str, where: str) -> PrometheusAnswer:
    """The series of the cluster of this name; without a name all, which have to be of one cluster.

    Raises WorldError for series of several clusters, as nodes and pods of two may have one name.
    """
    if name:
        own = tuple(one for one in answer.series if one.labels.get(CLUSTER) == name)
        return PrometheusAnswer(own, answer.warnings)
    names = sorted({one.labels[CLUSTER] for one in answer.series if CLUSTER in one.labels})
    if len(names) > 1:
        shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
        raise WorldError(
            f"{where} has series of {len(names)} clusters ({shown}); name one of them (--prometheus-cluster)"
        )
    return answer


def refusal(body: bytes) -> str:
    """Why the server refused, in its own words; "" if it does not say."""
    try:
        found = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return f"{found.errorType}: {found.error}" if found.errorType else found.error


def beginning(body: bytes) -> str:
    """The first characters of an answer, as one line."""
    return printable(body[:200].decode("utf-8", "replace"), 60)


def _series(stream: _Stream, where: str) -> Series:
    times, values = array("q"), array("d")
    for time_s, text in stream.values:
        try:
            value = float(text)
        except ValueError:
            raise WorldError(f"{where} answers with a value that is no number: {printable(text)}") from None
        if not math.isfinite(time_s) or abs(time_s) > 2**53:
            raise WorldError(f"{where} answers with a time that is none: {time_s}")
        if math.isfinite(value):
            times.append(round(time_s))
            values.append(value)
    labels = {name: _shown(text) for name, text in stream.metric.items() if name != "__name__" and text}
    return Series(labels, times, values)


def _shown(text: str) -> str:
    """A label's value, escaped where it holds what a terminal would obey."""
    return text if text.isprintable() else ascii(text)[1:-1]
