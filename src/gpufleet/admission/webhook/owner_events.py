"""Events on the owners of pods that rules find something in: a warning alone reaches the sender of a request.

That is a controller for most pods, which does not show it. An Event on the owner is what ``kubectl describe``
and every page about a workload show. All rules about one object are told here, those of the policies too, as
a policy can write no Event. One owner is told of one rule once an hour. A trial (dry run) makes no Event.
"""

import asyncio
import datetime as dt
import logging
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from gpufleet.admission.verdicts import AdmissionVerdict
from gpufleet.kube.backoff import RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import EVENTS

LOG = logging.getLogger(__name__)
CONTROLLER = "gpufleet-admission"
REASON = "GpuRule"
AGAIN_S = 3600.0
TOLD_MAX = 10_000
WAITING_MAX = 1_000
"""Beyond so many the oldest cause is that Events cannot be written: further ones are dropped."""

NOTE_CHARACTERS_MAX = 1000
"""The API server takes 1,024 bytes."""

QUICK = RetryLimits(attempts=2, budget_s=5.0)


class EventOwner(msgspec.Struct, frozen=True, rename="camel"):
    """The controller of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class OwnerEvents:
    """Writes Events beside the answers, never before one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: dict[tuple[str, str], float] = {}
        self._waiting: asyncio.Queue[tuple[str, EventOwner, str]] = asyncio.Queue(WAITING_MAX)

    def tell(self, namespace: str, pod: Mapping[str, Any], found: list[AdmissionVerdict]) -> None:
        """Have the owner of the pod told, if it has one."""
        owner = owner_of(pod)
        if owner is None:
            return
        now_s = self._client.clock.monotonic_s()
        for one in found:
            key = (owner.uid, one.rule.id)
            # A full queue drops the Event without noting it, so the owner is told with the next pod.
            if now_s - self._told.get(key, float("-inf")) < AGAIN_S or self._waiting.full():
                continue
            # Cleared whole: at worst an owner is told once more within the hour.
            if len(self._told) >= TOLD_MAX:
                self._told.clear()
            self._told[key] = now_s
            self._waiting.put_nowait((namespace, owner, one.words))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            namespace, owner, words = await self._waiting.get()
            event = _event(namespace, owner, words, self._client.clock.now())
            try:
                await self._client.create(EVENTS, event, namespace=namespace, retry_limits=QUICK)
            except KubeError as error:
                LOG.warning("an Event could not be written", extra={"problem": str(error)})


def owner_of(pod: Mapping[str, Any]) -> EventOwner | None:
    """The controller of a pod; None without one."""
    for one in (pod.get("metadata") or {}).get("ownerReferences") or ():
        try:
            owner = msgspec.convert(one, EventOwner)
        except msgspec.ValidationError:
            continue
        if owner.controller:
            return owner
    return None


def _event(namespace: str, owner: EventOwner, words: str, now: dt.datetime) -> dict[str, Any]:
    # A name has at most 253 characters, and 17 are added.
    name = f"{owner.name[:200]}.{secrets.token_hex(8)}"
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": now.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Judging",
        "reason": REASON,
        "type": "Warning",
        "note": words[:NOTE_CHARACTERS_MAX],
        "regarding": {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "namespace": namespace,
            "name": owner.name,
            "uid": owner.uid,
        },
    }
