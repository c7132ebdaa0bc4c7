"""What gpufleet says of each asked pod: the live scheduler's own reading of the same objects, and its engine.

Nothing is decided here. Every object of the server is listed and read as the scheduler reads it; each
pod that waits is told to an engine that knows its case alone, asked about node by node, and taken away
again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.watching.change_queue import ChangeQueue
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import Picture, take_picture
from gpufleet.engine.event import BindRefused, Event, NodeSet, PodAdded, PodBound, PodRemoved
from gpufleet.engine.instruction import Rejected
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.client import Client
from gpufleet.scheduler.metrics import Metrics
from tests.differential.builder import ASKS
from tests.differential.cases import TOKEN, Case, path_of

STEP_US = 1_000_000
DEADLINE_S = 600.0
WAITING = "waiting"


@dataclass(frozen=True)
class Judgement:
    """Every reason of every node against a pod; or why no node was even looked at."""

    reasons: Mapping[str, tuple[str, ...]]
    held: str = ""

    @property
    def feasible(self) -> frozenset[str]:
        """The nodes that would take the pod."""
        return frozenset(node for node, reasons in self.reasons.items() if not reasons)


@dataclass(frozen=True)
class Reading:
    """The events of each case, those of "" being for all, and every pod by its path."""

    events: Mapping[str, list[Event]]
    pods: Mapping[str, Entry]


async def read(client: Client) -> Reading:
    """Everything on the server, listed and translated."""
    picture = await take_picture(client, WATCHED)
    events, pods = _read(picture, client)
    by_case: dict[str, list[Event]] = {}
    for event in events:
        by_case.setdefault(_case_of(event), []).append(event)
    by_path = {f"{entry.name.namespace}/{entry.name.name}": entry for entry in pods.entries.values()}
    return Reading(by_case, by_path)


def judgements(reading: Reading, cases: Iterable[Case]) -> Mapping[str, Judgement]:
    """For each asked pod ("namespace/name") what speaks against each node of its case."""
    found = {}
    for case in cases:
        engine = Engine(find_policy("best-fit"))
        said = engine.step(0, [*reading.events.get("", ()), *reading.events.get(case.token, ())])
        refused = [one for one in said if isinstance(one, Rejected)]
        assert not refused, refused
        for pod in case.asked:
            path = path_of(pod)
            found[path] = _judge(engine, reading.pods.get(path))
    return found


def _case_of(event: Event) -> str:
    """The token of the case that an event is about, "" if it is about all."""
    match event:
        case NodeSet(found) | PodBound(found):
            return str(TOKEN.findall(found.name)[0])
        case PodAdded():
            return WAITING
        case _:
            return ""


def _read(picture: Picture, client: Client) -> tuple[list[Event], PodTracker]:
    """Everything that was listed, as events of the engine."""
    dependencies, gangs = Dependencies(), GangTracker(DEADLINE_S)
    pods = PodTracker(ASKS, PodReader(picture, dependencies, gangs), gangs)
    nodes = NodeTracker(picture)
    engine_events = EngineEvents(
        picture, ChangeQueue(), dependencies, nodes, pods, gangs, client.clock, Metrics()
    )
    events = engine_events.take(picture.seen())
    assert not nodes.problems, nodes.problems
    assert not picture.unreadable, picture.unreadable
    return events, pods


def _judge(engine: Engine, entry: Entry | None) -> Judgement:
    """What speaks against a pod, which is there only as long as this is asked."""
    assert entry is not None, "a pod that the server has is not known to us"
    if entry.meaning is None:
        held = entry.held.message if entry.held is not None else entry.place.value
        return Judgement({}, held)
    uid = entry.meaning.uid
    engine.step(engine.at_us + STEP_US, [PodAdded(entry.meaning)])
    # Where it was given a place, that was not to be.
    engine.step(engine.at_us, [BindRefused(uid)])
    reasons = engine.reasons_by_node(uid)
    assert reasons is not None
    engine.step(engine.at_us, [PodRemoved(uid)])
    return Judgement({str(node): against for node, against in reasons.items()})
