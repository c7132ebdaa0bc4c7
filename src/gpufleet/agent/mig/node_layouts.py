"""The cards of this node are brought to the layouts that its Node says, and the Node says how far they are.

    annotation gpufleet.io/mig-layouts -> nothing in use in the way -> withheld from the kubelet -> record on
    the disk -> calls to the driver (``layout_changer``) -> offered -> gpufleet.io/mig-layout-states

Something in use in the way is waited for, and nothing is withheld meanwhile. What a driver refused is tried
again after ``RETRY_S``. One card changes at a time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from gpufleet.agent.mig.change_records import ChangesOnDisk
from gpufleet.agent.mig.held_on_card import held_on_card
from gpufleet.agent.mig.labelled_layouts import LabelledLayouts, layout_for
from gpufleet.agent.mig.layout_changer import HeldOnCard, LayoutChanger
from gpufleet.agent.mig.mig_manager import MIG_MANAGER_WORDS, is_at_work
from gpufleet.agent.mig.offered_gpus import OfferedGpus
from gpufleet.agent.mig.timed_driver import TimedDriver
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.mig_parted import WantedLayout
from gpufleet.devices.sharing.plan import Exclusive, Mig
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODES
from gpufleet.mig.change import LayoutChange, layout_of
from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.wanted import (
    LAYOUTS_ANNOTATION,
    STATES_ANNOTATION,
    CardLayoutState,
    ChangeTimes,
    LayoutState,
    States,
    Wanted,
    layout_texts,
    read_states,
    read_wanted,
)
from gpufleet.model import gpu_model
from gpufleet.model.fleet_policy import MIG_LAYOUT_LABEL, MIG_STATE_LABEL
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigGeometry
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError, WorldError

LOG = logging.getLogger(__name__)

CLAIMS_WORDS = "the card goes to claims (--dra-cards)"

LOOK_EVERY_S = 5.0
"""Pods end without a word to this part."""

RETRY_S = 300.0
"""After a change that failed: a driver that refuses mostly goes on refusing."""


class _Node(Structure, frozen=True):
    metadata: Metadata


class LayoutWorld(msgspec.Struct, frozen=True):
    """What a change asks of the other parts of the agent.

    ``ask`` says what containers hold now, or were just given; it raises WorldError or TimeoutError. ``known``
    says whether pods and holders are known as far as there are any. ``is_for_claims`` says of a card that
    resource claims get it: its layout follows from them. ``offer`` returns once nothing is given any more
    that is withheld, and ``list_anew`` once the GPUs are told as their driver has them now; it raises
    TimeoutError.
    """

    pods: Topic[NodePods]
    ask: Callable[[], Awaitable[Holders]]
    known: Callable[[], bool]
    is_for_claims: Callable[[GpuFacts], bool]
    offer: Callable[[], Awaitable[None]]
    list_anew: Callable[[], Awaitable[None]]


class NodeLayouts:
    """Follows the Node while ``run`` runs. ``problem`` says what keeps it from that."""

    def __init__(
        self,
        client: Client,
        node: str,
        gpus: Topic[NodeGpus],
        driver: TimedDriver,
        records: ChangesOnDisk,
        world: Callable[[], LayoutWorld],
        labelled: LabelledLayouts | None = None,
    ) -> None:
        self.problem = ""
        self._client = client
        self._node = node
        self._gpus = gpus
        self._driver = driver
        self._records = records
        self._world = world
        self._labelled = labelled
        self._by_label: frozenset[DeviceId] = frozenset()
        """The cards of which the Node's label says what they shall be, and no annotation."""

        self._label_problem = ""
        withheld = {card: change.withheld for card, change in records.changes.items()}
        self.offered = OfferedGpus(gpus, withheld)
        self.states: States = {}
        self._failed: dict[DeviceId, tuple[Layout | None, float]] = {}
        self.said: Metadata | None = None
        """The Node's words as they were read last."""

        self._mirror = Mirror(
            client,
            NODES,
            msgspec.json.Decoder(_Node),
            self._changed,
            selection=Selection(fields=f"metadata.name={node}"),
        )
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Follow the Node until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mirror.run())
            group.create_task(self._keep())

    @property
    def _said_before(self) -> States:
        """What the Node says, by this process or the one before it."""
        text = "" if self.said is None else self.said.annotations.get(STATES_ANNOTATION, "")
        try:
            return read_states(text)
        except InputError:
            return {}

    def _changed(self, _: Change[_Node]) -> None:
        found = self._mirror.get(self._node)
        self.said = None if found is None else found.metadata
        self._news.set()

    async def _keep(self) -> None:
        while True:
            self._news.clear()
            try:
                await self.look()
                self.problem = ""
            except (WorldError, TimeoutError, OSError) as error:
                self.problem = f"MIG layouts are not changed: {str(error) or 'no answer'}"
                LOG.warning("MIG layouts are not changed", extra={"problem": str(error)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._news.wait()

    async def look(self) -> None:
        """Bring each card as far as it can be. Raises WorldError, TimeoutError and OSError."""
        said = self.said
        if said is None or not self._gpus.value.boot_id or not self._world().known():
            return
        wanted = await self._wanted(said)
        labelled = await self._wanted_by_label(said, wanted)
        self._by_label = frozenset(labelled)
        self.states = {card: one for card, one in self.states.items() if card in {*wanted, *labelled}}
        # A change that was begun is ended first, whatever is wanted now.
        for change in tuple(self._records.changes.values()):
            await self._carry_out(change)
        for card, layout in wanted.items():
            if not self._recently_failed(card, layout):
                await self._bring(card, layout)
        for card, counts in labelled.items():
            await self._bring_counted(card, counts)
        await self._tell()

    async def _wanted(self, said: Metadata) -> Wanted:
        """What the Node says. Raises LayoutsRefusedError where it cannot be read or carried out."""
        try:
            wanted = read_wanted(said.annotations.get(LAYOUTS_ANNOTATION, ""))
        except InputError as error:
            raise LayoutsRefusedError(str(error)) from error
        manager = is_at_work(said)
        if wanted and manager:
            # Who wrote the wish waits for a state, and does not see the readiness of this process.
            for card, layout in wanted.items():
                self._say(card, layout, LayoutState.FAILED, MIG_MANAGER_WORDS)
            await self._tell()
            raise LayoutsRefusedError(MIG_MANAGER_WORDS)
        return wanted

    async def _wanted_by_label(self, said: Metadata, wanted: Wanted) -> Mapping[DeviceId, WantedLayout]:
        """What the Node's label says of cards of which the annotation says nothing.

        Raises LayoutsRefusedError where NVIDIA's MIG Manager reads the label.
        """
        self._label_problem = ""
        name = said.labels.get(MIG_LAYOUT_LABEL, "")
        if self._labelled is None or not name:
            return {}
        if is_at_work(said):
            raise LayoutsRefusedError(MIG_MANAGER_WORDS)
        cards = [gpu for gpu in self._gpus.value.gpus if not self._world().is_for_claims(gpu.facts)]
        try:
            found = self._labelled.of(name, cards)
        except (InputError, OSError) as error:
            self._label_problem = f"the label {MIG_LAYOUT_LABEL} is not carried out: {error}"
            LOG.warning("a MIG config is not carried out", extra={"config": name, "problem": str(error)})
            return {}
        return {card: one for card, one in found.items() if card not in wanted}

    async def _bring_counted(self, card: DeviceId, wanted: WantedLayout) -> None:
        """Begin a change to so many instances of each profile, as many of them kept as can be."""
        gpu = self._gpus.value.gpu(card)
        geometry = None if gpu is None else _geometry(gpu)
        if geometry is None:
            self._say(card, None, LayoutState.FAILED, "the card is gone, or cannot be cut")
            return
        held = await self._held(card)
        state = (await self._driver.card_state(card)).with_held(held.places, card=held.card)
        try:
            layout = layout_for(self._node, card, state, geometry, wanted)
        except MigPlanError as error:
            self._say(card, layout_of(state), LayoutState.WAITING, str(error))
            return
        except InputError as error:
            self._say(card, layout_of(state), LayoutState.FAILED, str(error))
            return
        if not self._recently_failed(card, layout):
            await self._bring(card, layout)

    def _label_state(self, said: Metadata) -> str | None:
        """What the Node's label of the state shall say, in MIG Manager's words; None where it is not ours."""
        if self._labelled is None or not said.labels.get(MIG_LAYOUT_LABEL) or is_at_work(said):
            return None
        states = {self.states[card].state for card in self._by_label if card in self.states}
        if self._label_problem or LayoutState.FAILED in states:
            return "failed"
        done = all(
            card in self.states and self.states[card].state is LayoutState.SUCCESS for card in self._by_label
        )
        return "success" if done else "pending"

    def _say(
        self,
        card: DeviceId,
        layout: Layout | None,
        state: LayoutState,
        problem: str = "",
        took: ChangeTimes | None = None,
    ) -> None:
        known = self.states.get(card) or self._said_before.get(card)
        said = CardLayoutState(state, problem, layout_texts(layout), took)
        # A layout that the card still has was had by the change that is known of it.
        if took is None and known is not None and msgspec.structs.replace(known, took=None) == said:
            said = known
        self.states[card] = said

    def _recently_failed(self, card: DeviceId, layout: Layout | None) -> bool:
        failed, at_s = self._failed.get(card, (None, -RETRY_S))
        return failed == layout and self._client.clock.monotonic_s() - at_s < RETRY_S

    async def _bring(self, card: DeviceId, wanted: Layout | None) -> None:
        """Begin a change, unless the card has the layout or something is in the way."""
        gpu = self._gpus.value.gpu(card)
        reason = "there is no such card on this node" if gpu is None else self._why_not(gpu, wanted)
        if reason or gpu is None:
            self._say(card, wanted, LayoutState.FAILED, reason)
            return
        state = await self._driver.card_state(card)
        layout = layout_of(state)
        if layout == wanted and len(layout or ()) == len(state.gpu_instances):
            self._say(card, wanted, LayoutState.SUCCESS)
            return
        held = await self._held(card)
        state = state.with_held(held.places, card=held.card)
        in_the_way = [
            one.place for one in state.gpu_instances if one.in_use and one.place not in (wanted or ())
        ]
        if in_the_way or (state.in_use and state.mig_enabled != (wanted is not None)):
            names = ", ".join(f"{one.profile}@{one.start}" for one in in_the_way) or "the card"
            self._say(card, wanted, LayoutState.WAITING, f"{names} is in use")
            return
        await self._carry_out(LayoutChange(card, layout, wanted))

    def _why_not(self, gpu: Gpu, wanted: Layout | None) -> str:
        """Why a card is not brought to a layout, "" where it is."""
        return CLAIMS_WORDS if self._world().is_for_claims(gpu.facts) else _why_not(gpu, wanted)

    async def _carry_out(self, change: LayoutChange) -> None:
        """Bring one card to its layout or back; it is offered again once it is known how it is."""
        card = change.card
        self._say(card, change.wanted, LayoutState.PENDING)
        await self._tell()
        gpu = self._gpus.value.gpu(card)
        geometry = None if gpu is None else _geometry(gpu)
        if geometry is None:
            self._say(card, change.wanted, LayoutState.FAILED, "the card is gone")
            return
        if gpu is not None and self._world().is_for_claims(gpu.facts):
            # Another setting since: claims say what the card shall have.
            self._records.forget(card)
            self.offered.release(card)
            return
        self.offered.withhold(card, change.withheld)
        await self._world().offer()
        began = self._client.clock.now()
        self._driver.begin(card)
        changer = LayoutChanger(self._driver, self._records, self._client.clock, self._held)
        outcome = await changer.carry_out(change, geometry)
        # An instance that was made anew has another UUID: the old one must not be offered again.
        await self._driver.listing(card, self._world().list_anew)
        self._records.forget(card)
        self.offered.release(card)
        done = LayoutState.SUCCESS if outcome.reached else LayoutState.FAILED
        took = ChangeTimes(began, self._client.clock.now(), self._driver.of(card))
        self._say(card, change.wanted, done, outcome.problem, took)
        if not outcome.reached:
            self._failed[card] = change.wanted, self._client.clock.monotonic_s()

    async def _held(self, card: DeviceId) -> HeldOnCard:
        """What is held on a card now, by the kubelet and by the pods of the API."""
        world, node = self._world(), self._gpus.value
        holders = await world.ask()
        gpu = node.gpu(card)
        if gpu is None:
            raise LayoutsRefusedError(f"{card} is gone")
        return held_on_card(gpu, node, holders, world.pods.value)

    async def _tell(self) -> None:
        """Write the states where the Node says others. Raises WorldError."""
        # States without a card say that layouts are carried out on this node.
        if self.said is None:
            return
        annotations = {STATES_ANNOTATION: msgspec.json.encode(self.states).decode()}
        state = self._label_state(self.said)
        labels = {} if state is None else {MIG_STATE_LABEL: state}
        if (
            labels.items() <= self.said.labels.items()
            and annotations.items() <= self.said.annotations.items()
        ):
            return
        body = {"metadata": {"annotations": annotations, "labels": labels}}
        await self._client.patch(NODES, self._node, body, retry_limits=ONE_TRY)


class LayoutsRefusedError(WorldError):
    """Layouts that are not carried out on this node as it is."""


def _geometry(gpu: Gpu) -> MigGeometry | None:
    model = gpu_model.find(gpu.facts.product)
    return None if model is None else BOARDS.get(model.name)


def _why_not(gpu: Gpu, wanted: Layout | None) -> str:
    """Why a card is not brought to a layout, "" where it is."""
    geometry = _geometry(gpu)
    if gpu.facts.vendor is not Vendor.NVIDIA or geometry is None:
        return f"{gpu.facts.product} cannot be cut"
    if not isinstance(gpu.plan.mode, Exclusive | Mig):
        return "the card is shared"
    if gpu.health is not Verdict.HEALTHY:
        return f"the card is {gpu.health.value}: {gpu.reason}"
    try:
        geometry.taken(wanted or ())
    except InputError as error:
        return str(error)
    return ""
