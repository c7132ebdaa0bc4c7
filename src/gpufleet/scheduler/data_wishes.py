"""Tells nodes which models and datasets work will read that is to start there, and which images it runs.

    places that are kept, nodes that join for work -> names of data and images -> annotation of NodeData

A place is known before its pod can start: while it is reserved, while pods leave it, and while nodes join
that were chosen for work. The copy takes that time and none of the GPUs'. A wrong guess costs bytes alone, so
nothing waits for a copy and no decision changes for it.
"""

import logging
from collections.abc import Callable, Iterable

import msgspec

from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.engine.scheduler import Engine
from gpufleet.kube import keys, resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.data_copies import data_copies
from gpufleet.kube.codec.data_wishes import NO_WISH, DataWish, write_wish
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.pod_images import images_of_pod
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.node_data import IMAGE, NodeData
from gpufleet.model.data import DataAsk
from gpufleet.model.identifiers import NodeName

LOG = logging.getLogger(__name__)
TURN_EVERY_S = 5.0
"""A copy takes seconds to minutes."""

WRITES_A_TURN = 50
"""More nodes have their turn with the next one, so that a large reservation does not fill the API server."""

PENDING = "Pending"
Names = dict[str, dict[DataAsk, None]]
"""Data or images by node, in an order."""

_ENCODER = msgspec.json.Encoder()


class DataWishes:
    """Takes turns while ``run`` runs. ``may_write`` is false once we do not lead."""

    def __init__(
        self,
        client: Client,
        cluster: Lookup,
        engine: Engine,
        pods: PodTracker,
        nodes: NodeTracker,
        *,
        busy: Callable[[], bool],
        may_write: Callable[[], bool],
    ) -> None:
        self.client = client
        self.cluster = cluster
        self.engine = engine
        self.pods = pods
        self.nodes = nodes
        self.busy = busy
        self.may_write = may_write

    async def run(self) -> None:
        """Take turns until cancelled."""
        while True:
            await self.client.clock.sleep(TURN_EVERY_S)
            if not self.busy():
                await self._write()

    def wanted(self, reports: Iterable[NodeData]) -> dict[str, DataWish]:
        """What each of these nodes is to have, by its name."""
        stage, images = self._starting()
        running, named = self._named()
        found = {}
        for report in reports:
            name = report.metadata.name
            copies = data_copies(report)
            kept = {ask for ask in named if any(ask.is_of(one) for one in copies)}
            keep = sorted({*running.get(name, ()), *kept}, key=str)
            lacking = [one for one in images.get(name, {}) if report.spec.pulls and not one.is_met_by(copies)]
            found[name] = DataWish(
                tuple(stage.get(name, {})) if report.spec.stages else (),
                tuple(keep) if report.spec.stages else (),
                tuple(str(one).removeprefix(f"{IMAGE}/") for one in lacking),
            )
        return found

    def _starting(self) -> tuple[Names, Names]:
        """What starts soon on each node, data and images, the work of the best right first."""
        found: Names = {}
        images: Names = {}

        def add(node: str, entry: Entry | None) -> None:
            if entry is None:
                return
            if _asks(entry):
                found.setdefault(node, {}).update(dict.fromkeys(_asks(entry)))
            images.setdefault(node, {}).update(dict.fromkeys(images_of_pod(entry.object)))

        places = [place for held in self.engine.kept_places() for place in held.places]
        places += [place for held in self.engine.reservations() for place in held.places]
        for place in places:
            add(place.node, self.pods.entries.get(place.uid))
        for node, uids in self.nodes.joining().items():
            for uid in uids:
                add(node, self.pods.entries.get(uid))
        # A copy that has begun goes on until its pod runs.
        for entry in self.pods.entries.values():
            if _is_starting(entry):
                add(_node_of(entry), entry)
        return found, images

    def _named(self) -> tuple[dict[str, set[DataAsk]], set[DataAsk]]:
        """What the pods of each node read, and what pods read that wait."""
        running: dict[str, set[DataAsk]] = {}
        waiting: set[DataAsk] = set()
        for entry in self.pods.entries.values():
            asks = _asks(entry)
            if not asks:
                continue
            node = _node_of(entry)
            if node:
                running.setdefault(node, set()).update(asks)
            else:
                waiting.update(asks)
        return running, waiting

    async def _write(self) -> None:
        reports = {one.metadata.name: one for one in self.cluster.all(resources.NODE_DATA)}
        reports = {name: one for name, one in reports.items() if one.spec.stages or one.spec.pulls}
        if not reports:
            return
        left = WRITES_A_TURN
        for name, wish in self.wanted(reports.values()).items():
            text = write_wish(wish)
            if text == reports[name].metadata.annotations.get(keys.DATA_WANTED, ""):
                continue
            if not left or not self.may_write():
                return
            left -= 1
            await self._tell(name, text, told=wish != NO_WISH)

    async def _tell(self, name: str, text: str, *, told: bool) -> None:
        body = _ENCODER.encode({"metadata": {"annotations": {keys.DATA_WANTED: text if told else None}}})
        try:
            await self.client.patch(resources.NODE_DATA, name, body)
        except KubeError as error:
            # The next turn finds the difference again.
            LOG.warning("a node is not told what to stage", extra={"node": name, "problem": str(error)})


def _asks(entry: Entry) -> tuple[DataAsk, ...]:
    return () if entry.meaning is None else entry.meaning.shape.relations.data.asks


def _node_of(entry: Entry) -> NodeName:
    """The node that it has, or that its Binding under way names."""
    return entry.node if entry.intent is None else entry.intent.node


def _is_starting(entry: Entry) -> bool:
    """True for a pod that has a node and does not run yet."""
    placed = entry.place is PodStage.PLACED or entry.intent is not None
    return placed and entry.object.status.phase in ("", PENDING)
