"""KEDA's calls over a real channel: what there is, what is unknown, and what is asked for wrongly."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest

from gpufleet.metrics.external_scaler import external_scaler_pb2 as api
from gpufleet.metrics.external_scaler.scaler import SERVICE, ExternalScaler
from gpufleet.metrics.reading import Reading
from gpufleet.metrics.served_values import FoundValues
from tests.at_work import at_work
from tests.metrics.values_at_hand import NOW_S, Objects, Values, metric, served

QUEUE = "queue_length"
Story = Callable[[grpc.aio.Channel], Awaitable[None]]


def reference(**metadata: str) -> api.ScaledObjectRef:
    return api.ScaledObjectRef(name="llama", namespace="default", scalerMetadata=metadata)


SCALED = reference(metric=QUEUE, target="5")


def call(channel: grpc.aio.Channel, method: str, asked: object, told: type) -> Awaitable[object]:
    one = channel.unary_unary(f"/{SERVICE}/{method}", type(asked).SerializeToString, told.FromString)  # type: ignore[attr-defined]
    return one(asked)


def scaling(values: Values, story: Story) -> None:
    """A scaler over these values, and what happens with it."""

    async def run() -> None:
        everything = served(Objects({}), values, metric(QUEUE, external=True))
        scaler = ExternalScaler(everything, "127.0.0.1:0", poll_every_s=0.01)
        async with at_work(scaler.run()), asyncio.timeout(30):
            await scaler.listener.listening.wait()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{scaler.listener.port}") as channel:
                await story(channel)

    asyncio.run(run())


def waiting(*amounts: float, age_s: float = 0.0, problem: str = "") -> Values:
    series = tuple(
        Reading(amount, NOW_S - age_s, {"pool": str(number)}) for number, amount in enumerate(amounts)
    )
    return Values(external={QUEUE: FoundValues(series, problem)})


def test_the_sum_over_the_series_and_the_target_for_each_replica() -> None:
    async def story(channel: grpc.aio.Channel) -> None:
        spec = await call(channel, "GetMetricSpec", SCALED, api.GetMetricSpecResponse)
        assert spec == api.GetMetricSpecResponse(
            metricSpecs=[api.MetricSpec(metricName=QUEUE, targetSize=5, targetSizeFloat=5.0)]
        )
        asked = api.GetMetricsRequest(scaledObjectRef=SCALED, metricName="s0-queue")
        found = await call(channel, "GetMetrics", asked, api.GetMetricsResponse)
        value = api.MetricValue(metricName="s0-queue", metricValue=12, metricValueFloat=11.5)
        assert found == api.GetMetricsResponse(metricValues=[value])

    scaling(waiting(4, 7.5), story)


@pytest.mark.parametrize(
    ("amounts", "activation", "active"), [((0.0,), "0", False), ((1.0,), "0", True), ((4.0, 1.0), "5", False)]
)
def test_there_is_work_above_the_activation(
    amounts: tuple[float, ...], activation: str, active: bool
) -> None:
    async def story(channel: grpc.aio.Channel) -> None:
        asked = reference(metric=QUEUE, target="5", activation=activation)
        assert await call(channel, "IsActive", asked, api.IsActiveResponse) == api.IsActiveResponse(
            result=active
        )

    scaling(waiting(*amounts), story)


def test_a_stream_tells_of_each_change() -> None:
    values = waiting(0)

    async def story(channel: grpc.aio.Channel) -> None:
        stream = channel.unary_stream(
            f"/{SERVICE}/StreamIsActive",
            api.ScaledObjectRef.SerializeToString,
            api.IsActiveResponse.FromString,
        )(SCALED)
        told = aiter(stream)
        assert await anext(told) == api.IsActiveResponse(result=False)
        values.without.update(waiting(1).without)
        assert await anext(told) == api.IsActiveResponse(result=True)
        stream.cancel()

    scaling(values, story)


@pytest.mark.parametrize(
    ("values", "asked", "code", "said"),
    [
        (waiting(1, age_s=90), SCALED, grpc.StatusCode.UNAVAILABLE, "90 s old"),
        (waiting(1, problem="pod a: it hangs"), SCALED, grpc.StatusCode.UNAVAILABLE, "it hangs"),
        (waiting(), SCALED, grpc.StatusCode.NOT_FOUND, "no series of queue_length in default"),
        (Values(), reference(metric="other", target="5"), grpc.StatusCode.UNAVAILABLE, "the metric other"),
        (waiting(1), reference(target="5"), grpc.StatusCode.INVALID_ARGUMENT, "metadata.metric"),
        (waiting(1), reference(metric=QUEUE), grpc.StatusCode.INVALID_ARGUMENT, "metadata.target"),
        (waiting(1), reference(metric=QUEUE, target="0"), grpc.StatusCode.INVALID_ARGUMENT, "above 0"),
        (waiting(1), reference(metric=QUEUE, target="x"), grpc.StatusCode.INVALID_ARGUMENT, "is no number"),
        (
            waiting(1),
            reference(metric=QUEUE, target="1", selector="=="),
            grpc.StatusCode.INVALID_ARGUMENT,
            "metadata.selector",
        ),
    ],
)
def test_what_is_unknown_or_wrong_is_an_error_and_never_zero(
    values: Values, asked: api.ScaledObjectRef, code: grpc.StatusCode, said: str
) -> None:
    async def story(channel: grpc.aio.Channel) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(channel, "IsActive", asked, api.IsActiveResponse)
        assert refused.value.code() is code
        assert said in (refused.value.details() or "")

    scaling(values, story)
