"""Cards are cut for the night by a FleetPolicy and are as before in the morning, in virtual time."""

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.lease import Lease
from gpufleet.kube.transport import Request
from gpufleet.mig.periods import PERIODS_ANNOTATION
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, STATES_ANNOTATION
from gpufleet.operator.service import LEASE_NAME, Following
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.operator.builders import GPU, policy_object

POLICY = "/apis/gpufleet.io/v1alpha1/fleetpolicies/nights"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CARDS = ("GPU-a", "GPU-b")
Written = dict[str, Any]


class Night:
    """A node with two cards and an agent that cuts them at once, and an operator."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        self.life: asyncio.Task[None] | None = None
        self.layouts: dict[str, list[str] | None] = dict.fromkeys(CARDS)
        self.manager = False

    def begin(self) -> None:
        """The objects, and a period that begins in twenty minutes, for twenty minutes."""
        self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpufleet-system"}})
        devices = [self._device(card) for card in CARDS]
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices"}
        self.server.add({**kind, "metadata": {"name": "n1"}, "spec": {"devices": devices}})
        labels = {**GPU, **({"nvidia.com/gpu.deploy.mig-manager": "true"} if self.manager else {})}
        metadata = {"name": "n1", "labels": labels, "annotations": {STATES_ANNOTATION: "{}"}}
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": {}})
        opens = self.clock.now() + dt.timedelta(minutes=20)
        period = {"schedule": f"{opens.minute} {opens.hour} * * *", "duration": "20m"}
        halves = ["4g.40gb", "3g.40gb"]
        self.server.add(
            policy_object("nights", migPeriods=[{**period, "instances": halves, "notice": "10m"}])
        )
        self.restart()

    def _device(self, card: str) -> Written:
        layout = self.layouts[card]
        places = [place.split("@") for place in layout or ()]
        return {
            "id": card,
            "model": "NVIDIA-H100-80GB-HBM3",
            "sharing": "whole" if layout is None else "mig",
            "health": "healthy",
            "migInstances": [{"profile": profile, "start": int(start)} for profile, start in places],
        }

    def restart(self) -> None:
        """A new process of the operator."""
        if self.life is not None:
            self.life.cancel()
        client = Client(SimulatedTransport(self.server, "system:masters", Random(2)), self.clock, Random(3))
        self.life = asyncio.create_task(self._operate(client))

    async def _operate(self, client: Client) -> None:
        lease = Lease(client, LEASE_NAME, namespace="gpufleet-system", identity="one")
        await lease.acquire()
        async with asyncio.TaskGroup() as group:
            group.create_task(lease.keep())
            group.create_task(Following(client, lease, "gpufleet-system").run())

    def said(self) -> Written:
        """The annotations of the node."""
        found = msgspec.json.decode(self.server.answer(Request("GET", "/api/v1/nodes/n1"), "a").body)
        annotations: Written = found["metadata"]["annotations"]
        return {key: json.loads(text) for key, text in annotations.items()}

    def patch(self, path: str, body: Written) -> None:
        """Write as a person does, or as the agent."""
        encoded, kind = msgspec.json.encode(body), "application/merge-patch+json"
        answer = self.server.answer(Request("PATCH", path, encoded, content_type=kind), "system:masters")
        assert answer.status == 200, answer.body

    def annotate(self, key: str, value: Written) -> None:
        """Write an annotation of the node."""
        self.patch("/api/v1/nodes/n1", {"metadata": {"annotations": {key: json.dumps(value)}}})

    async def wait(self, minutes: float, *, cuts: bool = True) -> None:
        """Let time go by; the agent cuts what is wanted."""
        await self.clock.sleep(minutes * 60)
        if cuts:
            self.layouts |= self.said().get(LAYOUTS_ANNOTATION, {})
            states = {card: {"state": "success", "layout": layout} for card, layout in self.layouts.items()}
            devices = [self._device(card) for card in CARDS]
            self.patch("/apis/gpufleet.io/v1alpha1/nodedevices/n1", {"spec": {"devices": devices}})
            self.annotate(STATES_ANNOTATION, states)
        if self.life is not None and self.life.done():
            self.life.result()

    def notes(self) -> list[str]:
        """What Events say on the node."""
        found = msgspec.json.decode(self.server.answer(Request("GET", EVENTS), "system:masters").body)
        return [one["note"] for one in found["items"] if one["reason"] == "MigLayoutComing"]


def through(story: Callable[[Night], Awaitable[None]], *, manager: bool = False) -> None:
    async def tell(loop: VirtualLoop) -> None:
        night = Night(loop)
        night.manager = manager
        night.begin()
        await story(night)
        assert night.life is not None
        night.life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await night.life

    run(tell)


HALVES = ["4g.40gb@0", "3g.40gb@4"]


def test_cards_are_cut_for_the_night_with_notice_and_are_as_before_in_the_morning() -> None:
    async def story(night: Night) -> None:
        await night.wait(9)
        assert (night.notes(), night.said().get(LAYOUTS_ANNOTATION)) == ([], None)
        await night.wait(5)
        (note,) = night.notes()
        assert note.startswith("2 cards will be cut into 4g.40gb 3g.40gb, for 20 minutes from ")
        await night.wait(7)
        assert night.layouts == dict.fromkeys(CARDS, HALVES)
        night.restart()
        await night.wait(10)
        assert night.layouts == dict.fromkeys(CARDS, HALVES)
        assert len(night.notes()) == 1
        await night.wait(11)
        assert night.layouts == dict.fromkeys(CARDS), "the cards are whole again"
        await night.wait(1)
        assert night.said().keys() == {STATES_ANNOTATION}, "no word of the period is left"

    through(story)


def test_what_a_person_writes_stays_and_a_policy_that_goes_gives_the_cards_back() -> None:
    async def story(night: Night) -> None:
        night.annotate(LAYOUTS_ANNOTATION, {"GPU-a": ["7g.80gb@0"]})
        await night.wait(22)
        assert night.layouts == {"GPU-a": ["7g.80gb@0"], "GPU-b": HALVES}
        assert night.said()[PERIODS_ANNOTATION].keys() == {"GPU-b"}
        night.server.answer(Request("DELETE", POLICY), "system:masters")
        night.restart()
        await night.wait(2)
        await night.wait(2)
        assert night.layouts == {"GPU-a": ["7g.80gb@0"], "GPU-b": None}
        assert night.said()[LAYOUTS_ANNOTATION] == {"GPU-a": ["7g.80gb@0"]}
        assert PERIODS_ANNOTATION not in night.said()

    through(story)


def test_where_the_mig_manager_is_no_card_is_cut_and_the_notice_says_so() -> None:
    async def story(night: Night) -> None:
        await night.wait(22)
        assert LAYOUTS_ANNOTATION not in night.said()
        (note,) = night.notes()
        assert "left out: NVIDIA's MIG Manager changes its layouts" in note

    through(story, manager=True)
