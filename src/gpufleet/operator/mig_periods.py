"""Cards get the layouts of FleetPolicies by hour and day, and afterwards those that they had.

    policies, clock -> the period that is open for a node -> ``mig.periods`` -> annotations of the Node

The agents carry the layouts out. Layout and record are one write, tied to the version that was read, so that
a process that starts anew finds both or none. Nodes are followed from the first policy on that has periods.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from gpufleet.cluster.mig_layouts.managed_cards import managed_cards
from gpufleet.cluster.mig_layouts.reported_cards import cards_of
from gpufleet.kube.client import Client
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.resources import EVENTS, NODE_DEVICES, NODES
from gpufleet.mig.periods import PERIODS_ANNOTATION, OpenPeriod, period_write, read_records, write_records
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION, read_wanted, write_wanted
from gpufleet.model.fleet_policy import FleetPolicy
from gpufleet.model.identifiers import NodeName
from gpufleet.model.mig_period import MigPeriod
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.operator.assignment import assign
from gpufleet.operator.events import OF_THE_CLUSTER, event_of
from gpufleet.operator.fleet_state import FleetState
from gpufleet.operator.rollout.windows import EPOCH, US_PER_S, is_open, opening

LOG = logging.getLogger(__name__)

ROUND_S = 15.0
"""Windows begin at whole minutes, and a card takes seconds to be cut."""

COMING, ACTION = "MigLayoutComing", "AnnounceMigLayout"

_NODE = msgspec.json.Decoder(Node)
_REPORT = msgspec.json.Decoder(NodeDevices)


class MigPeriods:
    """A leader's rounds.

    ``is_needed``: a policy has periods, or a node the layout of one. ``state`` is everything as it is known
    now, and ``may_write`` whether this process leads.
    """

    def __init__(
        self,
        client: Client,
        is_needed: Callable[[], bool],
        state: Callable[[], FleetState],
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._is_needed = is_needed
        self._state = state
        self._may_write = may_write
        self._announced: set[tuple[str, str, int]] = set()
        self._nodes = Mirror(client, NODES, _NODE, _ignored)
        self._reports = Mirror(client, NODE_DEVICES, _REPORT, _ignored, optional=True)

    async def run(self) -> None:
        """Take rounds until cancelled."""
        while not self._is_needed():
            await self._client.clock.sleep(ROUND_S)
        async with asyncio.TaskGroup() as group:
            for mirror in (self._nodes, self._reports):
                group.create_task(mirror.run())
                await mirror.wait_listed()
            while True:
                if self._is_needed():
                    await self.turn()
                await self._client.clock.sleep(ROUND_S)

    async def turn(self) -> None:
        """Write what is due on each node."""
        state = self._state()
        now_us = round((self._client.clock.now() - EPOCH) / dt.timedelta(microseconds=1))
        assigned = assign(state.policies.values(), state.nodes.values())
        for name in sorted(assigned):
            node = self._nodes.get(name)
            facts = state.nodes[NodeName(name)]
            # What a policy wrote that cannot be read now is not taken back, and neither on an opted out node.
            if node is None or facts.has_opted_out or state.problems:
                continue
            policy = next((one for one in assigned[name].holding if one.mig_periods), None)
            if policy is None and PERIODS_ANNOTATION not in node.metadata.annotations:
                continue
            try:
                await self._write(node, None if policy is None else _open(policy, now_us))
                if policy is not None:
                    for period in policy.mig_periods:
                        await self._announce(node, policy, period, now_us)
            except (KubeError, InputError) as error:
                # The next round begins anew, from what the Node says then.
                LOG.warning("MIG layouts are not written", extra={"node": name, "problem": str(error)})

    async def _write(self, node: Node, period: OpenPeriod | None) -> None:
        """One patch of a node's layouts and records, if anything is due. Raises InputError and KubeError."""
        annotations = node.metadata.annotations
        records = read_records(annotations.get(PERIODS_ANNOTATION, ""))
        wanted = read_wanted(annotations.get(LAYOUTS_ANNOTATION, ""))
        report = self._reports.get(node.metadata.name)
        cards = managed_cards(node, report, [], {})
        found = [period_write(one, records.get(one.card.id), period) for one in cards]
        due = [one for one in found if one is not None]
        if not due or not self._may_write():
            return
        for one in due:
            if isinstance(one.wish, msgspec.UnsetType):
                wanted.pop(one.card, None)
            else:
                wanted[one.card] = one.wish
            if one.record is None:
                records.pop(one.card, None)
            else:
                records[one.card] = one.record
        texts = {
            LAYOUTS_ANNOTATION: write_wanted(wanted) if wanted else None,
            PERIODS_ANNOTATION: write_records(records) if records else None,
        }
        metadata = {"resourceVersion": node.metadata.resource_version, "annotations": texts}
        await self._client.patch(NODES, node.metadata.name, {"metadata": metadata})
        LOG.info("MIG layouts are written", extra={"node": node.metadata.name, "cards": len(due)})

    async def _announce(self, node: Node, policy: FleetPolicy, period: MigPeriod, now_us: int) -> None:
        """Say once on a node what is to come. Raises KubeError."""
        opens_us = opening(period.window, now_us)
        key = node.metadata.name, policy.name, opens_us
        is_soon = now_us < opens_us <= now_us + period.notice_s * US_PER_S
        if not is_soon or key in self._announced or not self._may_write():
            return
        note = self._note(node, policy, period, opens_us)
        event = event_of(
            NODES, node.metadata, COMING, note, self._client.clock.now(), action=ACTION, warns=False
        )
        await self._client.create(EVENTS, event, namespace=OF_THE_CLUSTER)
        self._announced = {one for one in self._announced if one[2] > now_us} | {key}

    def _note(self, node: Node, policy: FleetPolicy, period: MigPeriod, opens_us: int) -> str:
        cards, left_out = cards_of(node, self._reports.get(node.metadata.name), [])
        at = whole_time(EPOCH + dt.timedelta(microseconds=opens_us))
        layout = " ".join(period.instances) or "whole cards"
        minutes = counted(period.window.duration_s // 60, "minute")
        told = f"{counted(len(cards), 'card')} will be cut into {layout}, for {minutes} from {at} on"
        reasons = dict.fromkeys(one.reason for one in left_out)
        missing = f"; {counted(len(left_out), 'card')} left out: {', '.join(reasons)}" if left_out else ""
        return f"{told} (FleetPolicy {policy.name}){missing}"


def _open(policy: FleetPolicy, now_us: int) -> OpenPeriod | None:
    """The first period of a policy that is open."""
    for one in policy.mig_periods:
        if is_open(one.window, now_us):
            return OpenPeriod(policy.name, one.instances)
    return None


def _ignored(_: Any) -> None:
    """Rounds look at what is there; no single change matters."""
