"""A made-up fleet for pictures of the web page: what a fleet of some size looks like on a good day.

Most nodes are held by gangs that have them whole, others by single pods and notebooks, some are free, and a
few in a thousand are sick. It is the same each time. ``web_pictures`` takes the pictures.
"""

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import msgspec

from gpufleet.doctor.report import FailureReport, MendReport
from gpufleet.explain.answer import SCHEMA, Answer, Asked, GangRow, MemberRow, NearRow, ReasonRow, State
from gpufleet.explain.queue_answer import ReservationRow, ResourceRow
from gpufleet.web import documents
from gpufleet.whatif import answer as whatif
from manual.web_use import use_of
from tests.web.sample_fleet import AT

NOW = dt.datetime.fromisoformat(AT)
CARDS = 8
GIBIBYTE = 2.0**30


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind. ``share`` is their part of the fleet, ``whole`` that of them held by gangs."""

    name: str
    model: str
    memory_mib: int
    share: float
    whole: float


@dataclass(frozen=True)
class Queue:
    """A queue: its weight in what is held, its quota as a part of the fleet, and names of its work."""

    name: str
    weight: float
    quota: float
    works: tuple[str, ...]


POOLS = (
    Pool("a100", "A100-80GB", 81_920, 0.3, 0.42),
    Pool("h100", "H100-80GB", 81_559, 0.5, 0.66),
    Pool("l40s", "L40S-48GB", 46_068, 0.2, 0.0),
)
QUEUES = (
    Queue("foundation", 9.0, 0.32, ("pretrain", "midtrain", "ablation")),
    Queue("alignment", 4.5, 0.18, ("reward", "rollout", "sft")),
    Queue("speech", 2.6, 0.12, ("asr", "tts", "codec")),
    Queue("vision", 2.2, 0.12, ("diffusion", "encode", "caption")),
    Queue("serving", 2.0, 0.12, ("chat", "embed", "rerank")),
    Queue("robotics", 1.2, 0.08, ("policy", "worldmodel")),
    Queue("evaluation", 0.8, 0.04, ("bench", "arena")),
    Queue("notebooks", 0.4, 0.02, ("notebook",)),
)
FOREIGN_RATIO, FREE_RATIO = 0.03, 0.1


def ago(seconds: float) -> str:
    """A moment before the picture."""
    return (NOW - dt.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@dataclass
class PictureFleet:
    """Rows of a fleet of so many nodes."""

    size: int
    chance: random.Random = field(default_factory=lambda: random.Random(11))
    work: dict[str, documents.WorkRow] = field(default_factory=dict)
    nodes: list[documents.NodeRow] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(11))

    def __post_init__(self) -> None:
        """Fill the nodes, pool by pool."""
        for pool in POOLS:
            self.nodes += self._pool(pool, round(self.size * pool.share))

    def _pool(self, pool: Pool, size: int) -> Iterator[documents.NodeRow]:
        whole = 0
        gang = ("", "")
        for number in range(size):
            if not whole:
                kind = self.chance.random()
                whole = self.chance.choice((2, 4, 4, 8, 16, 32)) if self.size > 100 else 2
                queue = self._queue(0)
                gang = (queue.name, f"{self.chance.choice(queue.works)}-{next(self.numbers)}")
                is_whole = kind < pool.whole
                is_free = kind > 1 - FREE_RATIO
                whole = whole if is_whole else min(whole, 3)
            whole -= 1
            yield self._node(
                pool, f"{pool.name}-{number + 1:04d}", gang if is_whole else None, is_free=is_free
            )

    def _queue(self, first: int) -> Queue:
        return self.chance.choices(QUEUES[first:], [one.weight for one in QUEUES[first:]])[0]

    def _node(
        self, pool: Pool, name: str, gang: tuple[str, str] | None, *, is_free: bool
    ) -> documents.NodeRow:
        luck = self.chance.random()
        if luck < 0.004 or (self.size < 100 and name.endswith("l40s-0002")):
            reason = "no agent reports its GPUs: nothing with GPUs is placed there"
            return documents.NodeRow(name, "no report", reason, pool.name, gpus=CARDS)
        holders = self._gang(name, gang) if gang else [] if is_free else list(self._mixed(name))
        cards = tuple(self._card(pool, name, place, holders) for place in range(CARDS))
        unwell = sum(card.health != "healthy" for card in cards)
        free = sum(card.health == "healthy" and not card.held_milli for card in cards)
        state, reason = "ready", ""
        if unwell:
            state, reason = f"{unwell} unwell", next(card.reason for card in cards if card.reason)
        if luck > 0.994 or (self.size < 100 and name.endswith("a100-0003")):
            state, reason = "cordoned", "it takes no new pods (kubectl uncordon)"
        elif luck > 0.991:
            state, reason = "not ready", "Ready is Unknown: NodeStatusUnknown"
        takes = state == "ready" or unwell
        held = sum(card.held_milli or 0 for card in cards) / 1000
        pods = len({(one.namespace, one.name) for card in cards for one in card.holders})
        return documents.NodeRow(
            name,
            state,
            reason,
            pool.name,
            pool.model,
            CARDS,
            held,
            unwell,
            free if takes and state != "cordoned" else 0,
            pods,
            state == "cordoned",
            cards,
        )

    def _gang(self, node: str, gang: tuple[str, str]) -> list[documents.Holder]:
        queue, name = gang
        holder = documents.Holder(1000, f"team-{queue}", f"{name}-{next(self.numbers)}", queue)
        self._runs(holder, node, CARDS, name)
        return [holder] * CARDS

    def _mixed(self, node: str) -> Iterator[documents.Holder | None]:
        """Who holds the cards of a node one by one; None for nobody."""
        left = CARDS
        while left:
            size = min(left, self.chance.choice((1, 1, 2, 2, 4, 4)))
            left -= size
            luck = self.chance.random()
            if luck < 0.22:
                yield from [None] * size
                continue
            if luck < 0.22 + FOREIGN_RATIO:
                yield from [documents.Holder(1000)] * size
                continue
            queue = self._queue(1)
            name = f"{self.chance.choice(queue.works)}-{next(self.numbers)}"
            is_part = queue.name == "notebooks"
            holder = documents.Holder(500 if is_part else 1000, f"team-{queue.name}", name, queue.name)
            self._runs(holder, node, 1 if is_part else size, "")
            yield from [holder] * (1 if is_part else size)
            left += size - 1 if is_part else 0

    def _runs(self, holder: documents.Holder, node: str, gpus: int, gang: str) -> None:
        key = f"pod/{holder.namespace}/{holder.name}"
        milli = holder.gpu_milli or 0
        created = ago(self.chance.randrange(600, 400_000))
        self.work[key] = documents.WorkRow(
            key, "runs", holder.queue, node, gang, gpus * milli / 1000, created=created
        )

    def _card(
        self,
        pool: Pool,
        node: str,
        place: int,
        holders: list[documents.Holder | None] | list[documents.Holder],
    ) -> documents.Card:
        id_ = f"GPU-{self.chance.getrandbits(32):08x}-{place}"
        is_sick = self.chance.random() < 0.0012 or (
            self.size < 100 and node.endswith("h100-0006") and place == 2
        )
        if is_sick:
            reason = "Xid 79: the GPU has fallen off the bus"
            return documents.Card(id_, "unhealthy", reason, memory_mib=pool.memory_mib)
        holder = holders[place] if place < len(holders) else None
        if holder is None:
            return documents.Card(id_, memory_mib=pool.memory_mib)
        sharing = "whole" if holder.gpu_milli == 1000 else "shares"
        return documents.Card(id_, "healthy", "", holder.gpu_milli, (holder,), "", pool.memory_mib, sharing)

    def fleet(self) -> documents.FleetRow:
        """The sums of the nodes."""
        free = [one.free_gpus or 0 for one in self.nodes]
        return documents.FleetRow(
            "fleet",
            nodes=len(self.nodes),
            gpus=sum(one.gpus or 0 for one in self.nodes),
            gpus_held=sum(one.gpus_held or 0 for one in self.nodes),
            gpus_unwell=sum(one.gpus_unwell or 0 for one in self.nodes),
            free_gpus=sum(free),
            largest_free_block=max(free),
            free_blocks={str(size): sum(one // size for one in free) for size in (1, 2, 4, 8)},
            fragmented_gpus=sum(one for one in free if one < CARDS),
            pods_waiting=sum(one.pods for one in self.waiting("")),
        )

    def waiting(self, queue: str) -> list[documents.WaitingWork]:
        """Who waits in a queue, or in all."""
        found = []
        for place, (owner, kind, name, pods, waited_s, words) in enumerate(WAITING):
            if queue in {"", owner}:
                position = sum(other[0] == owner for other in WAITING[:place]) + 1
                start = ago(-2400.0 * position) if position < 3 else None
                found.append(
                    documents.WaitingWork(
                        kind,
                        f"team-{owner}",
                        name,
                        pods,
                        position,
                        100,
                        ago(waited_s),
                        "nodes",
                        "gpus-busy",
                        words,
                        start,
                    )
                )
        return found

    def waiting_rows(self) -> list[documents.WorkRow]:
        """The same as rows of work."""
        return [
            documents.WorkRow(
                f"{one.kind}/{one.namespace}/{one.name}",
                "waits",
                one.namespace.removeprefix("team-"),
                gpus=one.pods * 8.0 if one.kind == "gang" else 1.0,
                created=one.created,
                position=one.position,
                cause=one.cause,
                why=one.words,
                expected_start=one.expected_start,
                members_placed=0 if one.kind == "gang" else None,
                members_arrived=one.pods if one.kind == "gang" else None,
                members_min=one.pods if one.kind == "gang" else None,
            )
            for one in self.waiting("")
        ]

    def queues(self) -> list[documents.QueueRow]:
        """A root with all queues below it."""
        gpus = sum(one.gpus or 0 for one in self.nodes)
        used = dict.fromkeys((one.name for one in QUEUES), 0.0)
        for row in self.work.values():
            used[row.queue] += row.gpus or 0
        rows = [self._queue_row("company", "", 0, sum(used.values()), gpus, 0)]
        rows += [
            self._queue_row(one.name, "company", 1, used[one.name], round(gpus * one.quota), 1)
            for one in QUEUES
        ]
        return rows

    def _queue_row(
        self, name: str, parent: str, depth: int, used: float, quota: int, own: int
    ) -> documents.QueueRow:
        waiting = self.waiting(name) if own else []
        amount = f"{round(used):d}"
        borrowed, lent = max(0, round(used) - quota), max(0, quota - round(used)) // 2 * own
        resources = (
            ResourceRow(
                "gpu", amount, str(quota), str(quota * own), str(borrowed * own), str(lent), str(quota)
            ),
            ResourceRow("cpu", str(round(used) * 12), str(quota * 16), str(quota * 16 * own)),
        )
        held = ReservationRow("gang", "team-foundation", "pretrain-512", 64, ago(900), ago(-2400))
        pods = sum(one.pods for one in (waiting if own else self.waiting("")))
        why = f"#1 {waiting[0].kind} {waiting[0].name} waits for nodes: {waiting[0].words}" if waiting else ""
        return documents.QueueRow(
            name,
            parent,
            depth,
            why=why,
            resources=resources,
            pods_waiting=pods,
            waiting=tuple(waiting),
            reservation=held if name == "foundation" else None,
        )

    def decisions(self) -> list[documents.DecisionRow]:
        """What was decided last."""
        rows = [row for row in self.work.values() if row.created > ago(90_000)][:30]
        placed = [
            documents.DecisionRow(
                row.key,
                ago(90 + 55 * place),
                documents.DecisionKind.PLACED,
                row.queue,
                row.node,
                f"{row.gpus:.6g} whole GPUs on {row.node}"
                if (row.gpus or 0) >= 1
                else f"half a GPU on {row.node}",
            )
            for place, row in enumerate(rows)
        ]
        waits = [
            documents.DecisionRow(
                f"pod/{one.namespace}/{one.name}",
                ago(20 + 170 * place),
                documents.DecisionKind.WAITS,
                one.namespace.removeprefix("team-"),
                text=one.words,
            )
            for place, one in enumerate(self.waiting(""))
        ]
        evicted = documents.DecisionRow(
            "pod/team-vision/caption-41",
            ago(140),
            documents.DecisionKind.EVICTED,
            "vision",
            "h100-0004",
            "queue foundation takes back what it owns: gang pretrain-512",
        )
        return [*placed, *waits, evicted]


WAITING = (
    ("foundation", "gang", "pretrain-512", 64, 5200, "needs 8 whole GPUs on each of 64 nodes; 41 have them"),
    ("foundation", "gang", "ablation-88", 4, 3100, "its turn comes after gang pretrain-512"),
    ("foundation", "gang", "ablation-89", 4, 2900, "its turn comes after gang pretrain-512"),
    ("alignment", "gang", "rollout-17", 2, 1900, "queue alignment is at its quota, and nobody lends"),
    ("alignment", "pod", "sft-204", 1, 700, "queue alignment is at its quota, and nobody lends"),
    ("speech", "pod", "tts-31", 1, 420, "no node with GPU model H200 (did you mean H100-80GB?)"),
    ("notebooks", "pod", "notebook-ada", 1, 65, "needs half a GPU with 40 GiB; 3 GPUs have room for less"),
)
"""Queue, kind, name, pods, seconds, words."""


WANTED_MODEL, ROOMY_NODES = "H100-80GB", 41
"""What the large gang asks for, and how many nodes have room for a pod of it."""


def explained(fleet: PictureFleet) -> documents.WorkDocument:
    """The large gang that waits."""
    row = fleet.waiting_rows()[0]
    other_model = sum(one.model != WANTED_MODEL for one in fleet.nodes)
    cordoned = sum(one.model == WANTED_MODEL and one.state == "cordoned" for one in fleet.nodes)
    busy = max(0, len(fleet.nodes) - other_model - cordoned - ROOMY_NODES)
    members = tuple(MemberRow(f"pretrain-512-{n}", State.WAITS) for n in range(6))
    gang = GangRow("pretrain-512", 64, 64, 0, (), members)
    answer = Answer(
        SCHEMA,
        Asked("gang", "team-foundation", "pretrain-512"),
        State.WAITS,
        "all 64 pods must start together, each needs 8 whole GPUs",
        cause="gpus-busy",
        why="41 nodes have 8 free GPUs and it needs 64; 23 more are held in part",
        way_out=(
            "it starts when gang team-alignment/reward-311 (16 nodes) and gang team-vision/diffusion-120 end",
            "it starts now with 40 pods, if its minimum may be 40",
            "move 31 pods together: gpufleet defragment frees 23 nodes",
        ),
        nodes=len(fleet.nodes),
        reasons=(
            ReasonRow("model", "with another GPU model", other_model, other_model, ()),
            ReasonRow("gpus-busy", "with too few free GPUs", busy, busy, ()),
            ReasonRow("cordoned", "cordoned (unschedulable)", cordoned, cordoned, ()),
        ),
        nearest=(
            NearRow("h100-0004", ("gpus-busy",), {"gpu": 1}, ("team-vision/caption-41",)),
            NearRow("h100-0009", ("gpus-busy",), {"gpu": 2}, ("team-speech/asr-12", "team-speech/tts-77")),
        ),
        gang=gang,
        notes=("It holds a reservation on 64 nodes; smaller work runs there until then.",),
    )
    history = (
        documents.HistoryRow(ago(5200), "created", "64 pods arrived within 8 s"),
        documents.HistoryRow(ago(5190), "waits", "needs 8 whole GPUs on each of 64 nodes; 12 have them"),
        documents.HistoryRow(ago(900), "reserved", "64 nodes are held for it, expected start in 55 minutes"),
    )
    return documents.WorkDocument(AT, row, answer, history)


def node(fleet: PictureFleet) -> documents.NodeDocument:
    """A document for any node; its row is replaced by that of the node, and its pods by those there."""
    since, posting = ago(900_000), "kubelet is posting ready status"
    ready = documents.ConditionRow("Ready", "True", "KubeletReady", posting, since)
    healthy = documents.ConditionRow("gpufleet.io/GPUsHealthy", "True", "Healthy", "", since)
    placed = tuple(one for one in fleet.work.values() if one.node)
    return documents.NodeDocument(AT, fleet.nodes[0], "580.95.05", (ready, healthy), pods=placed)


def plan() -> whatif.Answer:
    """What 24 nodes more would bring."""
    gang = whatif.Work("gang", "team-foundation", "pretrain-512", 64, "foundation", "8")
    starts = msgspec.structs.replace(
        gang,
        start=whatif.Start(0.0, {"new-1": 1, "new-2": 1, "h100-0003": 1}),
        before=whatif.Start(2400.0, {}),
    )
    later = whatif.Work("gang", "team-foundation", "ablation-88", 4, "foundation", "8", why="4 nodes lack")
    return whatif.Answer(
        "gpufleet.io/whatif/v1",
        AT,
        ("24 nodes more (new-1 to new-24), like h100-0001",),
        (starts,),
        *((), (), (), (), ()),
        waits=(later,),
        waits_more=9,
        waiting_pods_before=77,
        waiting_pods_after=13,
        queues=(
            whatif.QueueChange("company", "gpu", "1012", "1524", "0", "0"),
            whatif.QueueChange("foundation", "gpu", "402", "914", "512", "512"),
        ),
        notes=(),
    )


def problems() -> documents.ProblemsDocument:
    """A card that is gone, a queue below its share, and a node without an agent."""
    gone = FailureReport(
        "sick-devices",
        2,
        "broken",
        "GPU 2 of h100-0006 has fallen off the bus (Xid 79)",
        "Nothing is placed on it until the node is restarted. The pod that held it was evicted.",
        ("Node h100-0006",),
        ("NodeDevices h100-0006: unhealthy since 11:51:02, Xid 79",),
        (
            MendReport(
                "Drain the node and restart it.",
                "kubectl drain h100-0006 --ignore-daemonsets --delete-emptydir-data",
                "",
            ),
        ),
        (),
    )
    silent = FailureReport(
        "silent-nodes",
        3,
        "risk",
        "1 node has GPUs that no agent reports",
        "Work with GPUs is not placed there.",
        ("Node l40s-0002",),
        (),
        (
            MendReport(
                "See why its agent does not run.",
                "kubectl get pods --namespace gpufleet-system --field-selector spec.nodeName=l40s-0002",
                "",
            ),
        ),
        (),
    )
    alert = documents.AlertRow(
        "GPUGone",
        "critical",
        ago(530),
        "A GPU of h100-0006 has fallen off the bus.",
        "",
        {"node": "h100-0006", "xid": "79"},
    )
    return documents.ProblemsDocument(AT, False, (gone, silent), (), (alert,))


def documents_of(size: int) -> dict[str, object]:
    """Every document of a fleet of so many nodes, by the names of the samples."""
    fleet = PictureFleet(size)
    views: dict[str, list[object]] = {
        "fleet": [fleet.fleet()],
        "nodes": list(fleet.nodes),
        "queues": list(fleet.queues()),
        "work": [*fleet.work.values(), *fleet.waiting_rows()],
        "decisions": list(fleet.decisions()),
    }
    running = next(row for row in fleet.work.values() if row.gpus == CARDS)
    return {
        **{
            f"view-{view}": documents.ViewEvent(
                view, tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows)
            )
            for view, rows in views.items()
        },
        "source": documents.Source(documents.SourceState.LIVE, AT, queues_as_of=AT),
        "about": documents.About("0.1.0", cluster="west-1"),
        "node": node(fleet),
        "plan": plan(),
        "problems": problems(),
        "use": use_of(fleet.nodes),
        "work-waits": explained(fleet),
        "work-runs": documents.WorkDocument(AT, running),
    }
