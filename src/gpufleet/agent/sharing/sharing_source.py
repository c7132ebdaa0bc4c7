"""How each GPU of this node is to be offered, kept up to date from the declared configuration.

What is published is a ``Planner`` (``gpus.plans``): the monitor asks it with the GPUs that there are. A
changed configuration is read at once and without a restart of anything. One that cannot be used changes
nothing: the last good one goes on, and an Event on the node and a sentence among its problems name the field.
A GPU that is held keeps its plan until its holders have ended.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gpufleet.agent.events.node_events import NodeEvent, NodeEvents
from gpufleet.agent.gpus.plans import Planner, Plans
from gpufleet.agent.holders.held_gpus import HeldGpu, held_gpus
from gpufleet.agent.sharing.plan_changes import settled
from gpufleet.agent.sharing.plan_record import PlanRecord
from gpufleet.agent.sharing.sharing_texts import Texts
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.facts import Driver, Fleet, GpuFacts
from gpufleet.devices.sharing.any_format import GpuPlans, NodeSharing, as_they_are, read_node_sharing
from gpufleet.devices.sharing.chosen import CONFIG_LABEL, FALLBACKS, FOUND_FALLBACKS, POOL_LABEL, chosen_key
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plugin_config import FOUND_DEFAULT, PLUGIN_DEFAULT, Discovery
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)
REFUSED = "SharingConfigRefused"
TAKEN = "SharingConfigTaken"
LEFT = "SharingConfigLeft"
WAITS = "SharingChangeWaits"
# A look at memory, until the holders of devices are known.
RETRY_AFTER_S = 1.0
# Pods of the node wait as long for their GPUs after a start of the agent.
LOADED_WITHIN_S = 10.0
# A sentence with more names is not read.
PODS_NAMED_MAX = 3


class SharingOptions(msgspec.Struct, frozen=True):
    """How a configuration is chosen and read.

    ``default`` is the key for nodes without the label, ``fallbacks`` what counts without either.
    ``environment`` has the variables of NVIDIA's plugin, which go before its file. ``strategies`` are the
    ways of delivery that the agent's own option names; None where the configuration says.
    """

    default: str = ""
    fallbacks: tuple[str, ...] = FALLBACKS
    environment: dict[str, str] = {}
    strategies: tuple[str, ...] | None = None


OPTIONS = SharingOptions()


class Declared(msgspec.Struct, frozen=True):
    """What is declared for this node now: the texts, and the labels that choose among them."""

    texts: Texts
    config_label: str = ""
    pool: str = "default"


class SharingSource:
    """Publishes the ``planner``, and what the configuration says of delivery and of labels.

    ``texts`` is None where no configuration is declared: every GPU is offered as it is. ``labels`` are None
    until the node was seen. ``holders_known`` is False as long as the kubelet was not asked which
    container holds which GPU; until then no GPU changes its plan.
    """

    def __init__(
        self,
        texts: Topic[Texts] | None,
        labels: Topic[dict[str, str] | None],
        pods: Topic[NodePods],
        holders: Topic[Holders],
        record: PlanRecord,
        events: NodeEvents,
        *,
        options: SharingOptions = OPTIONS,
        holders_known: Callable[[], bool] = lambda: True,
    ) -> None:
        self.texts = texts
        self.labels = labels
        self.pods = pods
        self.holders = holders
        self.record = record
        self.events = events
        self.options = options
        self.holders_known = holders_known
        self.in_force: GpuPlans = record.read()
        self.planner: Topic[Planner] = Topic(functools.partial(self._plans, None))
        self.delivery: Topic[DeliveryOptions | None] = Topic(None)
        self.discovery: Topic[Discovery | None] = Topic(None)
        self._declared: Declared | None = None
        self._good: Declared | None = None
        self._judged: tuple[Declared, tuple[Fleet, ...], NodeSharing | None] | None = None
        self._refusal = ""
        self._left = ""
        self._waiting: tuple[DeviceId, ...] = ()
        self._recorded = dict(self.in_force)
        self._loaded = asyncio.Event()
        if texts is None:
            self._loaded.set()

    async def wait_loaded(self, limit_s: float = LOADED_WITHIN_S) -> None:
        """Return when it is known what is declared, so that nothing is offered in another way before.

        An API server or a file that is not there in time does not delay the agent: the record counts until
        then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._loaded.wait()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_for_holders())
            followed: list[Topic[Any]] = [self.labels, self.pods, self.holders]
            async for _ in any_change(*followed, *([] if self.texts is None else [self.texts])):
                declared = self._look()
                if declared != self._declared or self._waiting:
                    self._declare(declared)

    async def _wait_for_holders(self) -> None:
        while not self.holders_known():
            await self.events.client.clock.sleep(RETRY_AFTER_S)
        self._declare(self._look())

    def _declare(self, declared: Declared | None) -> None:
        """Have everything planned anew."""
        self._declared = declared
        if declared is not None:
            self._loaded.set()
        self.planner.publish(functools.partial(self._plans, declared))

    def _look(self) -> Declared | None:
        """What is declared now; None while the node's labels, or the texts, are not known yet."""
        if self.texts is None or not self.texts.value.loaded:
            return None
        labels = self.labels.value
        if labels is None and _needs_labels(self.texts.value):
            return None
        labels = labels or {}
        return Declared(
            self.texts.value, labels.get(CONFIG_LABEL, ""), labels.get(POOL_LABEL, "") or "default"
        )

    def _plans(self, declared: Declared | None, gpus: Sequence[GpuFacts]) -> Plans:
        """The plans of these GPUs while this is declared: the planner."""
        fleets = fleets_of(gpus)
        sharing = as_they_are(fleets) if self.texts is None else None
        if declared is not None and gpus:
            # The monitor asks with each new sample; the answer is mostly the one before.
            if self._judged is None or self._judged[:2] != (declared, fleets):
                self._judged = declared, fleets, self._taken(declared, fleets)
            sharing = self._judged[2]
        held = held_gpus(gpus, self.in_force, self.pods.value, self.holders.value)
        if sharing is None:
            # Nothing that could be used was ever declared, or it is not read yet: the plans in force go on.
            wanted = as_they_are(fleets).plans | self.in_force
            self._waiting = ()
            plans = settled(gpus, self.in_force, wanted, held).plans
            # What the units of holders told is kept: under a later plan they may fit too.
            self.in_force |= {uuid: plan for uuid, plan in plans.items() if plan != wanted[uuid]}
            return Plans(plans, self._problems(held))
        # Until the kubelet was asked, any GPU may be held, so the plans in force stay.
        wanted = sharing.plans if self.holders_known() else sharing.plans | self.in_force
        after = settled(gpus, self.in_force, wanted, held)
        if gpus:
            self.in_force = after.plans
        self._waiting = after.waiting
        self._keep_record()
        return Plans(after.plans, self._problems(held))

    def _taken(self, declared: Declared, fleets: tuple[Fleet, ...]) -> NodeSharing | None:
        """What is declared, or what was good before, or nothing."""
        if declared.texts.left:
            self._leave(declared.texts)
            return self._last_good(fleets)
        self.events.over(LEFT)
        self._left = ""
        try:
            sharing = self._read(declared, fleets)
        except SharingError as refusal:
            where, problem = declared.texts.where, str(refusal)
            self._refuse(problem if where in problem else f"{where}: {problem}")
            return self._last_good(fleets)
        if self._good != declared or self._refusal:
            self._say_taken(declared, fleets, sharing)
        self._good, self._refusal = declared, ""
        self.events.over(REFUSED)
        self.delivery.publish(sharing.delivery)
        self.discovery.publish(sharing.discovery)
        return sharing

    def _say_taken(self, declared: Declared, fleets: tuple[Fleet, ...], sharing: NodeSharing) -> None:
        """Have the log and an Event say what counts from now on, and what it changes."""
        texts = declared.texts
        if texts.is_absent:
            shared = {uuid: plan for uuid, plan in self.in_force.items() if uuid in sharing.plans}
            if shared == sharing.plans or not shared:
                return
            note = f"none of {texts.where} is there any more: every GPU is offered as it is"
        else:
            key = self._key(declared)
            told = (*sharing.notices, *not_followed(sharing.delivery, self.options.strategies))
            first = f"{_where(texts, key or '')} is taken over{_effect(fleets, sharing.plans)}"
            if key is None:
                first = f"{texts.where}: {_unchosen(texts.by_key)}"
            note = "; ".join((first, *told))
        LOG.info("a sharing configuration is taken over", extra={"where": texts.where, "what": note})
        self.events.over(TAKEN)
        self.events.say(NodeEvent("Normal", TAKEN, "Sharing", note))

    def _leave(self, texts: Texts) -> None:
        """What is there is not for this agent: nothing changes, and the log and an Event say why."""
        note = f"{texts.where} is left alone: {texts.left}. How this node's GPUs are offered stays as it is"
        if self._left != note:
            told = {"where": texts.where, "why": texts.left}
            LOG.warning("a sharing configuration is left alone", extra=told)
        self._left, self._refusal = note, ""
        self.events.over(REFUSED)
        self.events.over(TAKEN)
        self.events.say(NodeEvent("Warning", LEFT, "Sharing", note))

    def _last_good(self, fleets: tuple[Fleet, ...]) -> NodeSharing | None:
        """What was good before, for the GPUs that there are now; None where it does not fit them."""
        if self._good is None:
            return None
        try:
            return self._read(self._good, fleets)
        except SharingError:
            return None

    def _read(self, declared: Declared, fleets: tuple[Fleet, ...]) -> NodeSharing:
        """Raises SharingError for what cannot be used."""
        texts = declared.texts
        if texts.is_absent:
            return as_they_are(fleets)
        key = self._key(declared)
        if key is None:
            return as_they_are(fleets)
        where = _where(texts, key)
        default = FOUND_DEFAULT if texts.is_nvidias else PLUGIN_DEFAULT
        environment = self.options.environment
        return read_node_sharing(texts.by_key[key], fleets, declared.pool, where, environment, default)

    def _key(self, declared: Declared) -> str | None:
        """The key that counts for this node; None where none does. Raises SharingError."""
        texts, options = declared.texts, self.options
        if texts.problem:
            raise SharingError(texts.problem, where="" if texts.is_nvidias else texts.where)
        if "" in texts.by_key:
            return ""
        fallbacks = FOUND_FALLBACKS if texts.is_nvidias else options.fallbacks
        return chosen_key(texts.by_key, declared.config_label, options.default, fallbacks)

    def _refuse(self, problem: str) -> None:
        if problem != self._refusal:
            LOG.error("a sharing configuration is not taken over", extra={"problem": problem})
        self._refusal = problem
        self.events.over(TAKEN)
        self.events.say(NodeEvent("Warning", REFUSED, "Sharing", f"{_ended(problem)} {self._meanwhile()}"))

    def _meanwhile(self) -> str:
        if self.in_force:
            return "The last good configuration stays in force"
        return "There is no earlier one, so every GPU is offered as it is until this is mended"

    def _problems(self, held: Mapping[DeviceId, HeldGpu]) -> tuple[str, ...]:
        changes = []
        for uuid in self._waiting:
            pods = sorted(held[uuid].pods)
            more = len(pods) - PODS_NAMED_MAX
            shown = ", ".join(pods[:PODS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            changes.append(f"the new plan of {uuid} waits until {shown} ended")
        if changes:
            self.events.say(NodeEvent("Normal", WAITS, "Sharing", "; ".join(changes)))
        else:
            self.events.over(WAITS)
        refused = [f"{_ended(self._refusal)} {self._meanwhile()}"] if self._refusal else []
        return tuple(f"sharing: {problem}" for problem in (*refused, *changes))

    def _keep_record(self) -> None:
        """Put the plans in force on the disk where they are others; seldom enough to be waited for."""
        if self.in_force == self._recorded:
            return
        try:
            self.record.write(self.in_force)
            self._recorded = dict(self.in_force)
        except OSError as problem:
            LOG.warning("the plans could not be kept on disk", extra={"problem": str(problem)})


def not_followed(configured: DeliveryOptions | None, strategies: tuple[str, ...] | None) -> tuple[str, ...]:
    """What is said where the agent's own option decides how containers get devices, not the configuration."""
    if configured is None or strategies is None or set(configured.list_strategies) == set(strategies):
        return ()
    ways, wanted = ", ".join(strategies), ", ".join(configured.list_strategies)
    said = (
        f"containers get their devices by {ways}, as --device-list-strategy says, and not by {wanted} "
        "(flags.plugin.deviceListStrategy or its default): --device-list-strategy=as-configured follows that"
    )
    return (said,)


def _where(texts: Texts, key: str) -> str:
    """The place of the text that counts."""
    return f"{texts.where}, key {key}" if key else texts.where


def _unchosen(keys: Iterable[str]) -> str:
    """What is said where none of these keys counts for the node."""
    names = ", ".join(sorted(keys))
    return (
        f"this node's GPUs are offered as they are: it has no label {CONFIG_LABEL} that names one of its "
        f"keys, {names}"
    )


def _effect(fleets: Iterable[Fleet], plans: GpuPlans) -> str:
    """Which GPUs are offered several times, and as how many of which resource."""
    gpus = tuple(Gpu(gpu, plans[gpu.uuid]) for fleet in fleets for gpu in fleet.gpus)
    units = [one for one in node_units(NodeGpus("", gpus=gpus)).values() if one.replica is not None]
    if not units:
        return ""
    cards = len({one.gpu for one in units})
    counts = Counter(one.resource for one in units)
    offered = ", ".join(f"{count} {resource}" for resource, count in sorted(counts.items()))
    return f": {cards} GPU{'s are' if cards > 1 else ' is'} offered as {offered}"


def _ended(sentence: str) -> str:
    """A sentence with its point; one that asks what was meant has its own."""
    return sentence if sentence.endswith("?") else f"{sentence}."


def _needs_labels(texts: Texts) -> bool:
    """Whether the node's labels say which text counts, or which part of it."""
    if texts.is_absent or texts.left:
        return False
    return set(texts.by_key) != {""} or b"pools" in texts.by_key[""]


def fleets_of(gpus: Sequence[GpuFacts]) -> tuple[Fleet, ...]:
    """GPUs by their makers, as configurations are read against them."""
    vendors = dict.fromkeys(gpu.vendor for gpu in gpus)
    return tuple(
        Fleet(Driver(vendor, ""), tuple(gpu for gpu in gpus if gpu.vendor is vendor)) for vendor in vendors
    )
