"""KEDA's external scaler: whether there is work, which target counts, and how much there is.

A ScaledObject names an external metric, a target for each replica and, if it wants, a selector of series. The
amount is the sum over the series, which KEDA divides by the target. What is unknown ends the call with an
error and the reason: an amount of 0 would scale to zero what is at work.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import msgspec

from gpufleet.daemon.grpc_listener import GrpcListener
from gpufleet.kube.codec.selector_text import EVERYTHING, read_selector
from gpufleet.metrics.external_scaler import external_scaler_pb2 as api
from gpufleet.metrics.served_values import NoValueError, ServedValues
from gpufleet.metrics.wire.questions import AboutNothing
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError

SERVICE = "externalscaler.ExternalScaler"
POLL_EVERY_S = 2.0
"""A stream tells within this time that there is work: the way up from zero must not wait for KEDA to ask."""

CLOSE_S = 1.0
"""Calls under way read a page or two; a stream ends at once."""

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]

Asked = TypeVar("Asked")
Reply = TypeVar("Reply")


class Trigger(msgspec.Struct, frozen=True):
    """What a ScaledObject says: there is work where the amount is above ``activation``."""

    metric: str
    namespace: str
    target: float
    activation: float = 0.0
    series: LabelSelector = EVERYTHING


def read_trigger(written: api.ScaledObjectRef) -> Trigger:
    """The metadata of a trigger. Raises InputError that names the field."""
    said = dict(written.scalerMetadata)
    metric = said.get("metric", "")
    if not metric:
        raise InputError("is missing", field="metadata.metric", expected="the name of an external metric")
    try:
        series = read_selector(said.get("selector", ""))
    except InputError as error:
        raise InputError(error.problem, field="metadata.selector", expected=error.expected) from error
    target = _number(said, "target")
    if target is None or target <= 0:
        raise InputError(
            "is no target",
            field="metadata.target",
            value=said.get("target"),
            expected="a number above 0: how much one replica takes",
        )
    return Trigger(metric, written.namespace, target, _number(said, "activation") or 0.0, series)


def _number(said: dict[str, str], name: str) -> float | None:
    text = said.get(name)
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError("is no number", field=f"metadata.{name}", value=text, expected="a number such as 5")
    return found


class ExternalScaler:
    """Answers at an address until it is cancelled."""

    def __init__(self, values: ServedValues, address: str, *, poll_every_s: float = POLL_EVERY_S) -> None:
        self._values = values
        self._poll_every_s = poll_every_s
        self.listener = GrpcListener(address, "--external-scaler", close_s=CLOSE_S)

    async def run(self) -> None:
        """Serve. Raises InputError where the address cannot be listened on."""
        server = grpc.aio.server()
        handlers: dict[str, Handler] = {
            "IsActive": _one(self._is_active, api.ScaledObjectRef),
            "StreamIsActive": grpc.unary_stream_rpc_method_handler(
                self._stream, api.ScaledObjectRef.FromString, _bytes
            ),
            "GetMetricSpec": _one(self._spec, api.ScaledObjectRef),
            "GetMetrics": _one(self._metrics, api.GetMetricsRequest),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        await self.listener.serve(server)

    async def _is_active(self, asked: api.ScaledObjectRef, context: "Context") -> api.IsActiveResponse:
        trigger = await _read(asked, context)
        return api.IsActiveResponse(result=await self._amount(trigger, context) > trigger.activation)

    async def _stream(
        self, asked: api.ScaledObjectRef, context: "Context"
    ) -> AsyncIterator[api.IsActiveResponse]:
        trigger, told = await _read(asked, context), None
        while True:
            active = await self._amount(trigger, context) > trigger.activation
            if active != told:
                told = active
                yield api.IsActiveResponse(result=active)
            await asyncio.sleep(self._poll_every_s)

    async def _spec(self, asked: api.ScaledObjectRef, context: "Context") -> api.GetMetricSpecResponse:
        trigger = await _read(asked, context)
        # Whole numbers are for older versions of KEDA, which round up as their scalers do.
        spec = api.MetricSpec(
            metricName=trigger.metric, targetSize=math.ceil(trigger.target), targetSizeFloat=trigger.target
        )
        return api.GetMetricSpecResponse(metricSpecs=[spec])

    async def _metrics(self, asked: api.GetMetricsRequest, context: "Context") -> api.GetMetricsResponse:
        trigger = await _read(asked.scaledObjectRef, context)
        amount = await self._amount(trigger, context)
        value = api.MetricValue(
            metricName=asked.metricName or trigger.metric,
            # Rounded up: a reader of whole numbers would take a part of one for no work.
            metricValue=math.ceil(amount),
            metricValueFloat=amount,
        )
        return api.GetMetricsResponse(metricValues=[value])

    async def _amount(self, trigger: Trigger, context: "Context") -> float:
        asked = AboutNothing(trigger.metric, trigger.namespace, trigger.series)
        try:
            found = await self._values.about_nothing(asked)
        except NoValueError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        if not found:
            problem = f"no series of {trigger.metric} in {trigger.namespace} is as the selector says"
            await context.abort(grpc.StatusCode.NOT_FOUND, problem)
        return sum(one.amount for one in found)


async def _read(asked: api.ScaledObjectRef, context: "Context") -> Trigger:
    try:
        return read_trigger(asked)
    except InputError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


def _one(answer: Callable[[Asked, "Context"], Awaitable[Reply]], asked: Any) -> "Handler":
    return grpc.unary_unary_rpc_method_handler(answer, asked.FromString, _bytes)


def _bytes(message: Any) -> bytes:
    found: bytes = message.SerializeToString()
    return found
