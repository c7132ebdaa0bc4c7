"""An amount as far as the fleet has room for it: what an autoscaler asks for beyond that only waits.

A HorizontalPodAutoscaler that wants it adds ``gpufleet.io/limit: NAME``, its own name, to the selector of an
external metric with a target of type AverageValue. While pods of its workload wait for a place, the amount is
that of the replicas that have a place and of one more, which waits and starts as soon as there is room. The
verdicts are those of the scheduler on these very pods, so quota, nodes, gangs and reservations all count.
Without such a pod the amount is served as it is: nothing is known against more of them.
"""

import datetime as dt
import logging
import secrets
from typing import Any

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.access_reviews import QUICK
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.selector_text import read_selector
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import DEPLOYMENTS, EVENTS, REPLICA_SETS, STATEFUL_SETS, Kind
from gpufleet.metrics.cluster_objects import ClusterObjects, PodFacts
from gpufleet.metrics.served_values import ExternalValue, NoValueError
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted, verb
from gpufleet.model.quantity import NANO_PER_UNIT, parse_quantity

LOG = logging.getLogger(__name__)
AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SCALED = {("apps", kind.name): kind for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}
SAID_AGAIN_S = 300.0
"""An Event is not repeated within this time, as an autoscaler asks every fifteen seconds."""

REASON = "LimitedByFleet"
CONTROLLER = "gpufleet.io/metrics"
SAID_MAX = 4096
"""Sentences that are remembered; beyond it one may be written again sooner."""

NOTE_CHARACTERS_MAX = 1024
"""The API's limit for the note of an Event."""


class _Identifier(Structure, frozen=True):
    name: str = ""


class _Target(Structure, frozen=True):
    type: str = ""
    average_value: str | int | float | None = None


class _External(Structure, frozen=True):
    metric: _Identifier = _Identifier()
    target: _Target = _Target()


class _MetricSpec(Structure, frozen=True):
    type: str = ""
    external: _External = _External()


class _Reference(Structure, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _AutoscalerSpec(Structure, frozen=True):
    scale_target_ref: _Reference
    metrics: tuple[_MetricSpec, ...] = ()


class _Autoscaler(Structure, frozen=True):
    metadata: Metadata
    spec: _AutoscalerSpec


class _ScaleStatus(Structure, frozen=True):
    selector: str = ""


class _Scale(Structure, frozen=True):
    status: _ScaleStatus = _ScaleStatus()


_AUTOSCALER = msgspec.json.Decoder(_Autoscaler)
_SCALE = msgspec.json.Decoder(_Scale)


class FleetLimit:
    """Works out limits and says them in Events."""

    def __init__(self, client: Client, objects: ClusterObjects) -> None:
        self._client = client
        self._objects = objects
        self._said: dict[tuple[str, str, str], tuple[float, str]] = {}

    async def limited(
        self, namespace: str, name: str, metric: str, values: list[ExternalValue]
    ) -> list[ExternalValue]:
        """The values, or one in their place that is as large as the limit. Raises NoValueError."""
        try:
            autoscaler = decode(await self._get(AUTOSCALERS, name, namespace), _AUTOSCALER)
            average = _average(autoscaler, metric)
            pods = await self._pods(autoscaler, namespace)
        except (KubeError, InputError) as error:
            raise NoValueError(f"the limit of autoscaler {name} cannot be worked out: {error}") from error
        waiting = [pod for pod in pods if _waits(pod)]
        if not waiting or not values:
            return values
        placed = sum(1 for pod in pods if pod.spec.node_name)
        amount, most = sum(one.amount for one in values), (placed + 1) * average
        if amount <= most:
            return values
        await self._say(autoscaler, metric, _sentence(amount / average, placed, waiting))
        # As old as the oldest of what it stands for.
        return [ExternalValue({keys.METRIC_LIMIT: name}, most, min(one.at_s for one in values))]

    async def _get(self, kind: Kind, name: str, namespace: str, subresource: str = "") -> bytes:
        return await self._client.get(
            kind, name, namespace=namespace, subresource=subresource, retry_limits=QUICK
        )

    async def _pods(self, autoscaler: _Autoscaler, namespace: str) -> list[PodFacts]:
        """The pods of what it scales."""
        target = autoscaler.spec.scale_target_ref
        kind = SCALED.get((target.api_version.partition("/")[0], target.kind))
        if kind is None:
            listed = ", ".join(one for _, one in SCALED)
            raise InputError(
                "no limit is known of such a workload",
                field="scaleTargetRef",
                value=target.kind,
                expected=listed,
            )
        scale = decode(await self._get(kind, target.name, namespace, "scale"), _SCALE)
        selector = read_selector(scale.status.selector)
        # An empty selector accepts every pod of the namespace, whatever made it.
        if not selector.requirements:
            raise InputError("selects every pod", field=f"{target.kind} {target.name}")
        return [pod for pod in self._objects.pods_of(namespace) if selector.accepts(pod.metadata.labels)]

    async def _say(self, autoscaler: _Autoscaler, metric: str, sentence: str) -> None:
        metadata, now_s = autoscaler.metadata, self._client.clock.monotonic_s()
        key = (metadata.namespace, metadata.name, metric)
        at_s, before = self._said.get(key, (float("-inf"), ""))
        if before == sentence and now_s - at_s < SAID_AGAIN_S:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said[key] = (now_s, sentence)
        try:
            event = _event(metadata, sentence, self._client.clock.now())
            await self._client.create(EVENTS, event, namespace=metadata.namespace, retry_limits=QUICK)
        except KubeError as error:
            LOG.warning("an Event could not be written", extra={"problem": str(error)})


def _average(autoscaler: _Autoscaler, metric: str) -> float:
    """What one replica takes of the metric."""
    targets = [
        one.external.target.average_value
        for one in autoscaler.spec.metrics
        if one.type == "External" and one.external.metric.name == metric
    ]
    average = next((one for one in targets if one is not None), None)
    amount = (
        0.0 if average is None else parse_quantity(str(average), field="averageValue").nano / NANO_PER_UNIT
    )
    if amount <= 0:
        expected = f"an external metric {metric} with a target of type AverageValue"
        raise InputError("has no target that a limit follows from", field="spec.metrics", expected=expected)
    return amount


def _waits(pod: PodFacts) -> bool:
    """Whether a scheduler has looked for a place and found none."""
    condition = pod.condition("PodScheduled")
    return not pod.spec.node_name and condition is not None and condition.status == "False"


def _sentence(asked: float, placed: int, waiting: list[PodFacts]) -> str:
    condition = waiting[0].condition("PodScheduled")
    why = "" if condition is None or not condition.message else f": {condition.message}"
    sentence = (
        f"{asked:.1f} replicas would be asked for; {placed} {verb(placed, 'have')} a place and "
        f"{counted(len(waiting), 'pod')} {verb(len(waiting), 'wait')}, "
        f"so {placed + 1} {verb(placed + 1, 'are')} asked for until there is room{why}"
    )
    return sentence[:NOTE_CHARACTERS_MAX]


def _event(regarding: Metadata, sentence: str, now: dt.datetime) -> dict[str, Any]:
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {
            # A name has at most 253 characters, and 17 are added.
            "name": f"{regarding.name[:200]}.{secrets.token_hex(8)}",
            "namespace": regarding.namespace,
        },
        "eventTime": now.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Scaling",
        "reason": REASON,
        "type": "Normal",
        "note": sentence,
        "regarding": {
            "apiVersion": AUTOSCALERS.api_version,
            "kind": AUTOSCALERS.name,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
    }
